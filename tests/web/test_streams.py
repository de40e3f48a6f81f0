"""EventStream: what a client gets, and what becomes of the run when it goes away."""

import json
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from starlette.requests import Request

from actorgraph import ActorSystem, InMemorySaver
from actorgraph.web import EventStream
from tests.web.apps import GRAPHS


@pytest.fixture
async def system() -> AsyncIterator[ActorSystem]:
    saver = InMemorySaver()
    graphs = {name: graph.compile(checkpointer=saver) for name, graph in GRAPHS.items()}
    async with ActorSystem(graphs, saver=saver) as made:
        yield made


class Client:
    """The other side of an ASGI response."""

    def __init__(self, *, last_event_id: str | None = None) -> None:
        headers = [(b"last-event-id", last_event_id.encode())] if last_event_id else []
        self.scope: Any = {"type": "http", "method": "GET", "path": "/", "headers": headers}
        self.text = ""
        self.ended = False
        self._left = anyio.Event()
        self._said = anyio.Condition()

    @property
    def request(self) -> Request:
        return Request(self.scope)

    def leave(self) -> None:
        self._left.set()

    async def receive(self) -> Any:
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        async with self._said:
            self.text += message.get("body", b"").decode()
            self.ended = message["type"] == "http.response.body" and not message["more_body"]
            self._said.notify_all()

    async def hears(self, word: str) -> None:
        async with self._said:
            while word not in self.text:
                await self._said.wait()

    def events(self) -> list[tuple[str, Any]]:
        blocks = [b.splitlines() for b in self.text.split("\n\n") if "event: " in b]
        fields = [dict(line.split(": ", 1) for line in block) for block in blocks]
        return [(f["event"], json.loads(f["data"])) for f in fields]

    async def read(self, stream: EventStream) -> None:
        await stream(self.scope, self.receive, self.send)


class TestReading:
    async def test_from_the_beginning_to_the_end(self, system):
        """
        A stream begins with the run's id and ends with its status.
        """
        client = Client()
        run = await system.start("log", "t", {"foo": "a"}, stream_mode="updates")
        await client.read(EventStream(run, client.request))
        names = [name for name, _ in client.events()]

        assert names == ["metadata", "updates", "updates", "end"]
        assert client.events()[0][1]["run_id"] == run.id
        assert client.events()[-1][1]["status"] == "success"
        assert client.ended

    async def test_from_where_it_was(self, system):
        """
        With `Last-Event-ID` a stream goes on behind that event.
        """
        run = await system.start("log", "t", {"foo": "a"}, stream_mode="updates")
        await run.wait()
        client = Client(last_event_id="2")
        await client.read(EventStream(run, client.request))

        assert [name for name, _ in client.events()] == ["updates", "end"]

    async def test_a_silent_stream_is_kept_open(self, system):
        """
        While nothing happens a comment is sent now and then.
        """
        client = Client()
        run = await system.start("sleep", "t", {"foo": "a"})
        async with anyio.create_task_group() as group:
            group.start_soon(client.read, EventStream(run, client.request, ping_s=0.01))
            await client.hears(": ping\n\n: ping\n\n")
            client.leave()
        await run.cancel()


class TestLeaving:
    async def test_the_run_goes_on(self, system):
        """
        By default a run goes on when its reader has gone.
        """
        client = Client()
        run = await system.start("sleep", "t", {"foo": "a"}, stream_mode="updates")
        async with anyio.create_task_group() as group:
            group.start_soon(client.read, EventStream(run, client.request))
            await client.hears("event: updates")
            client.leave()

        assert run.status == "running"
        await run.cancel()

    async def test_the_run_is_cancelled_if_wanted(self, system):
        """
        With `on_disconnect="cancel"` it ends, what it did is stored, and nothing is left of it.
        """
        client = Client()
        run = await system.start("sleep", "t", {"foo": "a"}, stream_mode="updates")
        stream = EventStream(run, client.request, on_disconnect="cancel")
        async with anyio.create_task_group() as group:
            group.start_soon(client.read, stream)
            await client.hears("event: updates")
            client.leave()
        state = await system.graphs["sleep"].aget_state({"configurable": {"thread_id": "t"}})

        assert run.status == "cancelled"
        assert state.values["log"] == ["first"]
        assert system.statistics().active == 0
        again = await system.start("sleep", "t", {"foo": "b"})
        assert await again.cancel() == "cancelled"
