"""The studio's pages about runs, graphs, the store and the system; and its rules of access."""

import re
from html import unescape

import pytest

from actorgraph import InvalidConfigError, SqliteSaver
from actorgraph.api.system.thread_figures import ThreadFigures
from actorgraph.studio import Studio
from actorgraph.studio.operator_figures import CHARTS, figures_of
from actorgraph.studio.shown import preview
from actorgraph.values.ids import as_bytes
from actorgraph.values.systems import SetRun
from tests.studio.conftest import Place, chain, first, second, studio_place
from tests.support.gates import settled
from tests.support.source_files import ROOT


class TestRuns:
    async def test_runs_of_all_threads_are_listed(self, place):
        """
        Runs have their thread and status; a filter leaves out the rest.
        """
        await place.ran("steps", "one")
        await place.ran("fail", "two")

        html = await place.get("/runs")
        assert "one</a>" in html
        assert 'class="status error"' in html
        assert "one</a>" not in await place.get("/runs?status=error")

    async def test_selected_runs_are_retried(self, place):
        """
        Failed runs that were selected continue their threads.
        """
        runs = [await place.ran("fail", name) for name in ("one", "two")]
        place.fault.broken = False

        await place.post("/runs", do="retry", run=[run.id for run in runs])
        for name in ("one", "two"):
            newest = (await place.system.runs(thread_id=name))[-1]
            assert (await newest.result())["log"] == ["mended"]

    async def test_parked_runs_are_retried_as_they_were(self, place):
        """
        The run itself is pending again, with its own input, and no other one is started.
        """
        run = await place.ran("steps", "one")
        host = place.system._host  # noqa: SLF001
        row = await place.system._row(as_bytes(run.id))  # noqa: SLF001
        await host.writer.store(SetRun(row.run, "one", row.owner, "parked", "deaths", 3, deaths=3))
        place.system._actor.forget_ended(row.run)  # noqa: SLF001 - as a process that never had it

        await place.post("/runs", do="retry", run=run.id)
        (again,) = await place.system.runs(thread_id="one")

        assert (again.id, await again.wait()) == (run.id, "success")

    async def test_an_unknown_run_is_counted(self, place):
        """
        The page counts the runs that could not be changed; the others are.
        """
        html = await place.post("/runs", do="cancel", run=["0" * 32])

        assert "1 runs could not be changed" in html

    async def test_a_run_has_a_page(self, place):
        """
        Its id in the list and on the thread's page leads to it: input, steps, thread.
        """
        run = await place.ran("steps", "one", {"log": ["given"]})
        for path in ("/runs", "/threads/one"):
            assert f'href="/runs/{run.id}"' in await place.get(path)

        html = await place.get(f"/runs/{run.id}")
        assert "given" in html
        assert 'href="/threads/one"' in html
        assert html.count("?step=") == 4
        await place.get("/runs/01900000-0000-7000-8000-000000000000", 404)

    async def test_filters_stay_in_the_address_of_the_next_page(self, place):
        """
        The link to older runs has the status and the place in the list.
        """
        for number in range(51):
            await place.ran("steps", f"t{number}")

        html = await place.get("/runs?status=success")
        assert "1-50 of more" in html
        (address,) = re.findall(r'href="([^"]*)">Older', html)
        assert "status=success" in address
        html = await place.get(f"/runs{unescape(address)}")
        assert "51-51 of 51" in html
        assert '<a href="?status=success">Newer' in html


class TestCompare:
    async def test_threads_are_compared_by_key_and_step(self, place):
        """
        Keys that differ show both values, and steps stand beside their like.
        """
        await place.ran("steps", "one", {"log": ["a"]})
        await place.ran("ask", "two", {"log": ["b"]})

        html = await place.get("/compare?thread=one&thread=two")
        assert "1 of 1 keys differ" in html
        assert "<code>log[0]</code>" in html
        assert html.count("<td>yes</td>") == 2
        assert "All 1 keys are equal" in await place.get("/compare?left=one&right=one")

    async def test_runs_and_checkpoints_are_compared(self, place):
        """
        Each side may be a run, or a thread at a checkpoint; what isn't there is said.
        """
        one, two = [await place.ran("steps", "t", {"log": [name]}) for name in "ab"]
        html = await place.get(f"/compare?run={one.id}&run={two.id}")
        assert "1 of 1 keys differ" in html
        steps = re.findall(r"\?step=([0-9a-f-]{36})", await place.get("/threads/t"))
        oldest = steps[-1]
        html = await place.get(f"/compare?left=t&left_at={oldest}&right=t")
        assert f"<code>{oldest}</code>" in html
        assert "no thread and no run" in await place.get("/compare?left=t&right=none")
        await place.get("/compare?left=t&left_at=x&right=t", 422)


class TestGraphs:
    async def test_a_graph_has_its_drawing_and_topology(self, place):
        """
        The page of a graph shows an SVG, the topology report and the schemas.
        """
        assert "steps</a>" in await place.get("/graphs")
        html = await place.get("/graphs/steps")

        assert "<svg" in html
        assert "Input schema" in html
        await place.get("/graphs/none", 404)


class TestTheStore:
    async def test_items_are_shown_changed_and_deleted(self, place):
        """
        An item's value can be edited as JSON; the web layer's own items aren't shown.
        """
        await place.system.store.aput(("users", "ada"), "profile", {"likes": "tea"})
        await place.post("/threads", graph="steps", thread_id="t", input="{}")
        html = await place.get("/store")
        assert "tea" in html
        assert "created_at" not in html

        given = {"namespace": '["users", "ada"]', "key": "profile"}
        await place.post("/store", do="put", value='{"likes": "coffee"}', **given)
        assert (await place.system.store.aget(("users", "ada"), "profile")).value == {
            "likes": "coffee"
        }
        await place.post("/store", do="delete", **given)
        assert await place.system.store.aget(("users", "ada"), "profile") is None

    @pytest.mark.parametrize(
        ("form", "text"),
        [
            ({"namespace": '["actorgraph", "threads"]', "key": "t"}, "web layer itself"),
            ({"namespace": "users", "key": "t"}, "JSON list of labels"),
            ({"namespace": '["users"]', "key": "t", "value": "[1]"}, "must be a JSON object"),
            ({"namespace": '["users"]', "key": "t", "value": "{"}, "must be JSON"),
        ],
    )
    async def test_bad_changes_are_refused(self, place, form, text):
        """
        The page says what is wrong, and nothing is stored.
        """
        assert text in await place.post("/store", do="put", **form)
        assert await place.system.store.asearch(("users",)) == []


class TestTheSystem:
    async def test_figures_are_shown(self, place):
        """
        The page shows how many runs were started and have ended.
        """
        await place.ran("steps", "t")

        html = await place.get("/system/figures")
        assert "<dt>started</dt><dd>1</dd>" in html
        assert "success 1" in html

    async def test_each_figure_says_when_to_worry(self, place):
        """
        Each number has its meaning and its alert, which docs/operations.md has; a run that is
        parked is marked.
        """
        rules = set(re.findall(r"alert: (\w+)", (ROOT / "docs" / "operations.md").read_text()))
        html = await place.get("/system/figures")
        named = set(re.findall(r"Alert: <code>(\w+)", html))

        assert {"RunIsParked", "SavesAreSlow", "LoopIsBlocked"} <= named <= rules
        assert "look</span>" not in html
        parked = figures_of(
            place.system.statistics(), ThreadFigures(0, 0.0, 0, 0, 1), await place.system.owners()
        )
        assert [one.title for one in parked if one.is_bad] == ["Parked"]

    def test_charts_have_a_sentence_each(self):
        """
        Every chart says what it shows and when to worry.
        """
        assert all(one.meaning.endswith(".") and one.worry.startswith("Worry") for one in CHARTS)

    async def test_it_can_be_drained(self, place):
        """
        The button drains the system, which takes no more runs.
        """
        await place.post("/system/drain")
        await settled()

        assert place.system.statistics().draining is not None


class TestAccess:
    def test_a_studio_without_protection_is_refused(self):
        """
        Without rules and token every client could change everything: it can't be made.
        """
        with pytest.raises(InvalidConfigError, match="every client"):
            Studio(saver=object())

    async def test_each_page_and_action_is_authorized(self):
        """
        A principal sees and changes only threads whose metadata matches its rule.
        """

        def authorize(principal, action, thread_id, metadata):
            if action.startswith("studio.system"):
                return False
            return {"tenant": principal}

        async with studio_place(
            token=None, authorize=authorize, authenticate=lambda r: r.headers.get("x-user")
        ) as place:
            place.client.headers["x-user"] = "ada"
            await place.post("/threads", graph="steps", thread_id="hers", input="{}")
            assert "hers</a>" in await place.get("/threads")
            place.client.headers["x-user"] = "bob"
            assert "hers" not in await place.get("/threads")
            assert "hers" not in await place.get("/runs")
            await place.get("/threads/hers", 404)
            assert "not found" in await place.post("/threads/hers/delete")
            await place.get("/system", 403)
            del place.client.headers["x-user"]
            await place.get("/threads", 401)

    @pytest.mark.parametrize("name", ["../app.py", "%2e%2e/app.py", "licences/htmx.txt", "none.js"])
    async def test_only_its_own_files_are_served(self, place, name):
        """
        A name with a path, or of no file in the folder, is not found.
        """
        found = await place.client.get(f"/static/{name}")

        assert found.status_code == 404

    async def test_previews_say_what_people_said(self, place):
        """
        A question about a tool call is previewed by the call, an input with messages by the last
        one, and an empty input by nothing.
        """
        asked = {"name": "send_mail", "description": "Sends a mail"}
        assert preview({"action_requests": [asked]}) == "send_mail: Sends a mail"
        assert preview({"action_requests": ["x"]}) == '{"action_requests":["x"]}'
        for given in ({"messages": [["user", "hi there"]]}, {"log": []}):
            await place.system.start("steps", "t", given, delay_s=600)
        html = await place.get("/runs")
        assert '<td class="preview">hi there</td>' in html


class TestReadOnly:
    async def test_a_database_alone_is_shown_and_not_changed(self, tmp_path):
        """
        A studio over a file that a program has open shows its threads, and refuses every action.
        """
        path = tmp_path / "runs.db"
        async with SqliteSaver(path) as saver:
            graph = chain(first, second)
            graph.checkpointer = saver
            await graph.ainvoke({"log": []}, {"configurable": {"thread_id": "t"}})
            async with SqliteSaver(path, read_only=True) as reading:
                place = Place(None, Studio(saver=reading, token="x"), None)  # noqa: S106 - a test
                async with place.client:
                    await place.client.get("/?token=x")
                    assert "t</a>" in await place.get("/threads")
                    html = await place.get("/threads/t")
                    assert "<code>log[1]</code>" in html
                    assert "<form" not in html
                    assert 'class="bar done"' in html
                    for path in ("/runs", "/graphs", "/store", "/system"):
                        await place.get(path)
                    for action in ("delete", "retry", "cancel", "edit"):
                        assert "only reads" in await place.post(f"/threads/t/{action}")
