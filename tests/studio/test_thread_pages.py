"""The studio's pages about threads, over a system: what they show, and what actions do."""

import re

import pytest

from actorgraph import InMemorySaver
from actorgraph.checkpoints import empty_checkpoint
from actorgraph.studio import Studio
from tests.studio.conftest import Place
from tests.support.graphs import at

HOSTILE = "<script>alert(1)</script>"


def step_of(html, text):
    """The id of the first step in the list whose row has a text."""
    rows = re.findall(r'<li><a href="[^"]*step=([0-9a-f-]+)"(.*?)</li>', html, re.DOTALL)
    return next(found for found, row in rows if text in row)


async def test_a_page_follows_signals(place):
    """
    The stream that a thread's page follows is that of signals, which carries no values.
    """
    await place.ran("steps", "one")

    followed = re.findall(r'data-stream="([^"]*)"', await place.get("/threads/one"))
    assert followed == ["/api/threads/one/stream?stream_mode=signals"]


class TestTheList:
    async def test_threads_are_listed_with_graph_and_status(self, place):
        """
        A thread that has ended, one that waits for a person and a failed one have three words, in
        the list and on their pages.
        """
        shown = {"steps": "ended", "ask": "waiting for a person", "fail": "failed"}
        for graph, text in shown.items():
            await place.ran(graph, f"{graph}-1")
            html = await place.get(f"/threads?prefix={graph}")
            row = html[html.index(f"{graph}-1</a>") :]
            assert f">{text}</span>" in row[:300]
            assert f">{text}</span>" in await place.get(f"/threads/{graph}-1")

    async def test_a_thread_with_a_run_to_come_has_ended(self, place):
        """
        The list and the page say so, and cancelling the runs of the thread leaves that one.
        """
        await place.ran("steps", "one")
        late = await place.system.start("steps", "one", {"log": []}, delay_s=600)
        said = await place.post("/threads/one/cancel")

        assert "1 run waits for its time" in said
        assert 'class="status ended"' in await place.get("/threads/one")
        assert "one</a>" not in await place.get("/threads?status=running")
        assert (await place.system.run(late.id)).status == "pending"

    async def test_filters_leave_out_the_rest(self, place):
        """
        A status, a prefix and metadata each keep only the threads that match.
        """
        await place.ran("steps", "one")
        await place.ran("ask", "two")
        await place.post("/threads/two/rename", title="Second")

        for status in ("interrupted", "waiting"):
            html = await place.get(f"/threads?status={status}")
            assert "two" in html
            assert "one</a>" not in html
        assert "two" not in await place.get("/threads?status=waiting&older_than=3600")
        assert "one</a>" not in await place.get("/threads?prefix=tw")
        html = await place.get('/threads?metadata={"title":"Second"}')
        assert "Second</a>" in html
        assert "one</a>" not in html

    async def test_bad_metadata_is_named(self, place):
        """
        A filter that isn't JSON is an explanation, not an error page.
        """
        assert "must be a JSON object" in await place.get("/threads?metadata=[1]")

    async def test_a_thread_is_started_from_a_form(self, place):
        """
        The form's graph runs with the form's input, on a thread with the form's id.
        """
        html = await place.post("/threads", graph="steps", thread_id="made", input='{"log": ["x"]}')

        assert "<h1>made</h1>" in html
        (run,) = await place.system.runs(thread_id="made")
        assert (await run.result())["log"] == ["x", "first", "second"]


class TestAThread:
    async def test_steps_state_and_changes_are_shown(self, place):
        """
        The page lists the steps, the state of the newest one, and what it changed.
        """
        await place.ran("steps", "t")

        html = await place.get("/threads/t")
        assert html.count('class="steps"') == 1
        assert "<code>log[1]</code>" in html
        assert "second" in html
        assert 'aria-label="2 tasks over' in html

    async def test_an_older_step_has_its_own_state(self, place):
        """
        A link of a step shows the state as it was then.
        """
        await place.ran("steps", "t")
        html = await place.get("/threads/t")

        older = await place.get(f"/threads/t?step={step_of(html, 'then second')}")
        assert "State after step 1" in older.replace("\n", " ")
        assert "second" not in older[older.index("<h2>Values</h2>") :].split("<summary>Edit")[0]

    async def test_values_are_text(self, place):
        """
        Markup in a state's value, a thread's id and its name is shown as text.
        """
        await place.ran("steps", HOSTILE, {"log": [HOSTILE]})
        address = "/threads/%3Cscript%3Ealert(1)%3C%2Fscript%3E"
        await place.post(f"{address}/rename", title=HOSTILE)

        for path in ("/threads", "/runs", address):
            html = await place.get(path)
            assert HOSTILE not in html
            assert "&lt;script&gt;alert(1)" in html

    async def test_an_unknown_thread_is_not_found(self, place):
        """
        The page of a thread that doesn't exist is a 404 that names it.
        """
        assert "none" in await place.get("/threads/none", 404)

    async def test_the_steps_alone_can_be_read_again(self, place):
        """
        The part that a live page replaces has no head, and the thread's status.
        """
        await place.ran("steps", "t")

        html = await place.get("/threads/t/steps")
        assert "<html" not in html
        assert 'id="thread-status"' in html

    async def test_steps_of_langgraph_name_the_nodes_that_follow(self):
        """
        Checkpoints that another library has put, whose rows don't say what follows them, are listed
        by what their channels say.
        """
        async with InMemorySaver() as saver:
            config = at("t", checkpoint_ns="")
            for step, values in enumerate(({"branch:to:work": None}, {"log": ["worked"]})):
                made = empty_checkpoint() | {
                    "channel_values": values,
                    "channel_versions": dict.fromkeys(values, 1),
                }
                metadata = {"source": "loop" if step else "input", "step": step}
                config = await saver.aput(config, made, metadata, made["channel_versions"])
            place = Place(None, Studio(saver=saver, token="x"), None)  # noqa: S106 - a test
            async with place.client:
                await place.client.get("/?token=x")
                html = await place.get("/threads/t")

        assert "input: then work" in html
        assert "the end" in html


class TestActions:
    async def test_a_question_is_answered_by_its_form(self, place):
        """
        The fields of the question's schema become the answer, and the thread goes on.
        """
        await place.ran("ask", "t")
        html = await place.get("/threads/t")
        asked = re.search(r'name="interrupt" value="(\w+)"', html).group(1)

        await place.post("/threads/t/answer", interrupt=asked, ok="true", why="cheap")
        run = (await place.system.runs(thread_id="t"))[-1]
        assert (await run.result())["log"] == ["first", "True cheap"]

    async def test_an_answer_to_a_closed_question_is_refused(self, place):
        """
        A form that was sent twice answers once.
        """
        await place.ran("ask", "t")

        html = await place.post("/threads/t/answer", interrupt="0" * 32, ok="true")
        assert "not open any more" in html
        assert len(await place.system.runs(thread_id="t")) == 1

    async def test_an_edit_of_an_older_step_forks(self, place):
        """
        Values written at an older checkpoint, and a run on from there, leave the old steps as they
        are.
        """
        await place.ran("steps", "t")
        step = step_of(await place.get("/threads/t"), "then second")

        await place.post(
            "/threads/t/edit", checkpoint=step, values='{"log": ["edited"]}', then="run"
        )
        run = (await place.system.runs(thread_id="t"))[-1]
        assert (await run.result())["log"] == ["first", "edited", "second"]
        assert "branch</span>" in await place.get("/threads/t")

    @pytest.mark.parametrize("values", ["[1]", "text", '{"log": '])
    async def test_values_must_be_an_object(self, place, values):
        """
        Nothing is written, and the page says why.
        """
        await place.ran("steps", "t")

        html = await place.post("/threads/t/edit", values=values)
        assert "must be a JSON object" in html

    async def test_a_step_is_run_again(self, place):
        """
        A run from an older checkpoint calls the following nodes again, on a branch.
        """
        await place.ran("steps", "t")
        step = step_of(await place.get("/threads/t"), "then first")

        await place.post("/threads/t/replay", checkpoint=step)
        run = (await place.system.runs(thread_id="t"))[-1]
        assert (await run.result())["log"] == ["first", "second"]

    async def test_a_failed_thread_is_retried(self, place):
        """
        The error is shown as text; after a retry of the mended node the thread has ended.
        """
        await place.ran("fail", "t")
        html = await place.get("/threads/t")
        assert "the &lt;b&gt;disk&lt;/b&gt; is full" in html
        place.fault.broken = False

        await place.post("/threads/t/retry")
        run = (await place.system.runs(thread_id="t"))[-1]
        assert (await run.result())["log"] == ["mended"]

    async def test_a_copy_has_the_same_steps(self, place):
        """
        A copy is a thread of its own with all checkpoints.
        """
        await place.ran("steps", "t")

        html = await place.post("/threads/t/copy")
        assert "<h1>t</h1>" not in html
        assert "<code>log[1]</code>" in html

    async def test_a_deleted_thread_is_gone(self, place):
        """
        Its page is a 404 afterwards, and its checkpoints are removed.
        """
        await place.ran("steps", "t")

        await place.post("/threads/t/delete")
        await place.get("/threads/t", 404)
        assert await place.system.saver.aget_tuple({"configurable": {"thread_id": "t"}}) is None
