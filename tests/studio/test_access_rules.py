"""The studio's rules of access: of each thread, item and page; and what errors don't show."""

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import WebSocketRoute
from starlette.testclient import TestClient, WebSocketDenialResponse
from starlette.websockets import WebSocketDisconnect

from actorgraph import InMemorySaver
from actorgraph.studio import Studio, studio_reader
from actorgraph.studio.request_guard import COOKIE, LOOPBACK, StudioGuard
from tests.studio.conftest import SAME_SITE, TOKEN, chain, first, studio_place

NAME = f"{COOKIE}_8124"


def by_id(principal, action, thread_id, metadata):
    """Threads belong to the principal with whose name their ids begin."""
    return thread_id is None or thread_id.startswith(principal)


def by_tenant(principal, action, thread_id, metadata):
    """Threads belong to the tenant in their metadata."""
    return {"tenant": principal}


def by_namespace(principal, action, thread_id, metadata):
    """Items belong to the principal that their namespace begins with."""
    return metadata.get("namespace", [])[:1] in ([], [principal])


def place_with(authorize):
    """A studio with these rules, whose principal is a header."""
    return studio_place(
        token=None, authorize=authorize, authenticate=lambda r: r.headers.get("x-user")
    )


class TestRulesOfThreads:
    async def test_a_rule_of_single_threads_hides_the_others(self):
        """
        Threads that the rule denies are neither listed nor found, and nothing is done with them.
        """
        async with place_with(by_id) as place:
            place.client.headers["x-user"] = "bob"
            for name in ("ada-1", "bob-1"):
                await place.ran("fail", name)
            (run,) = await place.system.runs(thread_id="ada-1")

            for path in ("/threads", "/runs"):
                html = await place.get(path)
                assert "bob-1</a>" in html
                assert "ada-1" not in html
            for path in ("", "/steps"):
                await place.get(f"/threads/ada-1{path}", 404)
            for action in ("answer", "edit", "replay", "retry", "cancel", "rename", "copy"):
                assert "not found" in await place.post(f"/threads/ada-1/{action}")
            for what in ("cancel", "retry"):
                assert "could not be changed" in await place.post("/runs", do=what, run=run.id)
            assert len(await place.system.runs(thread_id="ada-1")) == 1

    async def test_a_new_thread_needs_an_allowed_id(self):
        """
        A run on a new thread whose id the rule denies is refused, and nothing is registered.
        """
        async with place_with(by_id) as place:
            place.client.headers["x-user"] = "bob"

            for name in ("ada-1", "bob-1"):
                await place.post("/threads", graph="steps", thread_id=name, input="{}")
            assert await place.system.runs(thread_id="ada-1") == []
            assert len(await place.system.runs(thread_id="bob-1")) == 1

    async def test_a_rule_with_metadata_is_asked_of_each_thread_too(self):
        """
        A thread whose metadata matches is hidden where the rule denies it by its id.
        """

        def rules(principal, action, thread_id, metadata):
            return thread_id != "secret" and {"tenant": principal}

        async with place_with(by_tenant) as place:
            place.client.headers["x-user"] = "ada"
            for name in ("open", "secret"):
                await place.post("/threads", graph="steps", thread_id=name, input="{}")
            studio = Studio(place.system, authorize=rules, authenticate=lambda _: "ada")
            transport = httpx.ASGITransport(studio)
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as one:
                for path in ("/threads", "/runs"):
                    html = (await one.get(path)).text
                    assert "open</a>" in html
                    assert "secret" not in html

    async def test_a_studio_that_only_reads_asks_too(self):
        """
        Over a saver alone the list leaves out the threads that the rules deny.
        """
        saver = InMemorySaver()
        graph = chain(first)
        graph.checkpointer = saver
        for name in ("ada-1", "bob-1"):
            await graph.ainvoke({"log": []}, {"configurable": {"thread_id": name}})
        for rules, shown in ((by_id, True), (by_tenant, False)):
            studio = Studio(saver=saver, authorize=rules, authenticate=lambda _: "bob")
            transport = httpx.ASGITransport(studio)
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as one:
                html = (await one.get("/threads")).text
                assert "ada-1" not in html
                assert ("bob-1</a>" in html) is shown

    async def test_errors_of_the_rules_stay_in_the_log(self):
        """
        A rule that raises a ValueError is a 500 without its text.
        """

        def broken(principal, action, thread_id, metadata):
            if thread_id is not None or action == "studio.store.read":
                raise ValueError("password")
            return True

        async with place_with(broken) as place:
            place.client.headers["x-user"] = "ada"
            await place.ran("steps", "t")
            for path in ("/threads", "/threads/t", "/store"):
                assert "password" not in await place.get(path, 500)


class TestRulesOfTheRest:
    @pytest.mark.parametrize("path", ["/store", "/system", "/system/figures"])
    async def test_metadata_of_threads_opens_no_other_page(self, path):
        """
        A rule that names metadata of threads denies what has no thread, as in the REST routes.
        """
        async with place_with(by_tenant) as place:
            place.client.headers["x-user"] = "ada"

            await place.get(path, 403)
            await place.post("/system/drain")
            assert place.system.statistics().draining is None
            given = {"namespace": '["a"]', "key": "k", "value": "{}"}
            await place.post("/store", do="put", **given)
            assert await place.system.store.aget(("a",), "k") is None

    async def test_items_of_others_are_not_shown(self):
        """
        Items and namespaces that the rule denies are left out, and can't be written.
        """
        async with place_with(by_namespace) as place:
            place.client.headers["x-user"] = "ada"
            for name in ("ada", "bob"):
                await place.system.store.aput((name,), f"key-of-{name}", {})

            html = await place.get("/store")
            assert "key-of-ada" in html
            assert "bob" not in html
            await place.get('/store?namespace=["bob"]', 403)
            given = {"namespace": '["bob"]', "key": "key-of-bob"}
            await place.post("/store", do="delete", **given)
            assert await place.system.store.aget(("bob",), "key-of-bob") is not None

    async def test_hidden_items_take_no_room_in_a_page(self):
        """
        A page is full of shown items, however many of others come first.
        """
        async with place_with(by_namespace) as place:
            place.client.headers["x-user"] = "zoe"
            await place.system.store.aput(("zoe",), "mine", {})
            for number in range(30):
                await place.system.store.aput(("bob",), str(number), {})

            assert "mine" in await place.get("/store")


async def echo(socket):
    """Accept, and say that it did."""
    await socket.accept()
    await socket.send_text("in")
    await socket.close()


async def foreign(_):
    """A node that no graph of the system has."""
    return {"log": ["foreign"]}


class TestSockets:
    @pytest.mark.parametrize(
        ("headers", "session", "may"),
        [
            ({}, True, True),
            ({"Origin": "http://127.0.0.1:8124"}, True, True),
            ({}, False, False),
            ({"Origin": "http://evil.example"}, True, False),
            ({"Host": "evil.example", "Origin": "http://evil.example"}, True, False),
        ],
    )
    def test_a_socket_needs_host_session_and_origin(self, headers, session, may):
        """
        WebSockets of foreign pages, of foreign hosts and without a session are never accepted.
        """
        app = Starlette(routes=[WebSocketRoute("/s", echo)])
        guard = StudioGuard(app, token=TOKEN, hosts=LOOPBACK)
        client = TestClient(guard, base_url="http://127.0.0.1:8124")
        if session:
            client.get(f"/?token={TOKEN}")
            headers = {**headers, "Cookie": f"{NAME}={client.cookies[NAME]}"}
        headers = {"Host": "127.0.0.1:8124", **headers}
        if may:
            with client.websocket_connect("ws://127.0.0.1:8124/s", headers=headers) as socket:
                assert socket.receive_text() == "in"
        else:
            refused = (WebSocketDisconnect, WebSocketDenialResponse)
            with (
                pytest.raises(refused),
                client.websocket_connect("ws://127.0.0.1:8124/s", headers=headers),
            ):
                pass

    async def test_the_exchange_keeps_the_address(self, place):
        """
        The address without the token names the same thread, also one with slashes in its id.
        """
        found = await place.client.get(
            f"/threads/a%2Fb%3F?step=1&token={TOKEN}", follow_redirects=False
        )

        assert found.headers["location"] == "/threads/a%2Fb%3F?step=1"


class TestRefusals:
    async def test_an_unknown_graph_registers_nothing(self, place):
        """
        A start with a graph that the system doesn't have leaves no thread.
        """
        assert "none" in await place.post("/threads", graph="none", thread_id="t", input="{}")

        await place.get("/threads/t", 404)

    async def test_values_that_a_reducer_refuses_are_explained(self, place):
        """
        The page of the thread says what the reducer said.
        """
        await place.ran("steps", "t")

        assert "refused the values" in await place.post("/threads/t/edit", values='{"log": 3}')

    async def test_numbers_and_filters_that_are_too_long_are_ignored(self, place):
        """
        Addresses with absurd numbers and filters are pages, not internal errors.
        """
        await place.get(f"/graphs/steps?xray={'9' * 5000}")
        await place.get(f"/threads?after={'9' * 5000}")
        assert "must be a JSON object" in await place.get(f"/threads?metadata={'[' * 3000}")

    async def test_a_thread_of_an_unknown_graph_is_shown(self, place):
        """
        Its state and steps are shown as stored; what needs its graph is not offered.
        """
        graph = chain(foreign)
        graph.checkpointer = place.system.saver
        await graph.ainvoke({"log": []}, {"configurable": {"thread_id": "foreign"}})

        html = await place.get("/threads/foreign")
        assert "<code>log</code>" in html
        assert 'aria-current="step"' in html
        assert "Run again" not in html
        assert "/delete" in html

    async def test_a_system_without_a_store_refuses_items(self):
        """
        The page says that the store is missing, instead of an internal error.
        """
        async with studio_place(has_store=False) as place:
            given = {"namespace": '["a"]', "key": "k", "value": "{}"}
            found = await place.client.post("/store", data=given, headers=SAME_SITE)

            assert found.status_code == 404
            assert "no store" in found.text

    async def test_an_unknown_address_is_a_page(self, place):
        """
        Its answer is 404 with the navigation, also for the address of an action.
        """
        for path in ("/nothing", "/threads/t/edit"):
            assert "All threads" in await place.get(path, 404)

    async def test_a_selection_is_needed(self, place):
        """
        The page says that no run was selected, or that the action is unknown.
        """
        assert "no run was selected" in await place.post("/runs", do="cancel")
        assert "do=cancel or do=retry" in await place.post("/runs", do="other", run="x")

    async def test_a_search_that_ended_early_says_so(self, monkeypatch):
        """
        Over a saver alone, only the newest checkpoints are searched, which the page says.
        """
        saver = InMemorySaver()
        graph = chain(first)
        graph.checkpointer = saver
        await graph.ainvoke({"log": []}, {"configurable": {"thread_id": "t"}})
        transport = httpx.ASGITransport(Studio(saver=saver, authorize=lambda *_: True))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            assert "were searched" not in (await client.get("/threads")).text
            monkeypatch.setattr(studio_reader, "LOOKED_AT_MAX", 2)
            assert "newest 2 checkpoints were searched" in (await client.get("/threads")).text
