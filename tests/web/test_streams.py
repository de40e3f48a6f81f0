"""EventStream: what a client gets, and what becomes of the run when it goes away."""

import json
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from starlette.requests import Request

from actorgraph import ActorSystem, InMemorySaver, InvalidConfigError, SqliteSaver
from actorgraph.web import EventStream
from actorgraph.web.http import event_responses
from actorgraph.web.http.event_responses import ResultResponse
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
        headers = [(b"last-event-id", last_event_id.encode("latin-1"))] if last_event_id else []
        self.scope: Any = {"type": "http", "method": "GET", "path": "/", "headers": headers}
        self.text = ""
        self.status = 0
        self.types: list[bytes] = []
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
            if message["type"] == "http.response.start":
                self.status = message["status"]
                self.types = [
                    value for name, value in message["headers"] if name == b"content-type"
                ]
            self.ended = message["type"] == "http.response.body" and not message.get("more_body")
            self._said.notify_all()

    async def hears(self, word: str) -> None:
        async with self._said:
            while word not in self.text:
                await self._said.wait()

    def events(self) -> list[tuple[str, Any]]:
        blocks = [b.splitlines() for b in self.text.split("\n\n") if "event: " in b]
        fields = [dict(line.split(": ", 1) for line in block) for block in blocks]
        return [(f["event"], json.loads(f["data"])) for f in fields]

    def ids(self) -> list[str]:
        return [line.removeprefix("id: ") for line in self.text.split("\n") if line[:4] == "id: "]

    async def read(self, stream: EventStream | ResultResponse) -> None:
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

    @pytest.mark.parametrize("kept", ["in memory", "stored", "not stored"])
    async def test_a_client_that_has_the_end_stops(self, kept, tmp_path):
        """
        A browser's `EventSource` comes back after each stream, with the id of the last event; if
        that was the end it gets a 204, at which it stops, from the same process and from another.
        """
        saver = SqliteSaver(tmp_path / "runs.db")
        graphs = {"log": GRAPHS["log"].compile(checkpointer=saver)}
        client, last = Client(), ""
        async with ActorSystem(graphs, saver=saver) as before:
            run = await before.start("log", "t", {"foo": "a"}, resumable=kept == "stored")
            await client.read(EventStream(run, client.request))
            last = client.ids()[-1]
            again = Client(last_event_id=last)
            if kept == "in memory":
                await again.read(EventStream(run, again.request))
        if kept != "in memory":
            async with ActorSystem(graphs, saver=SqliteSaver(tmp_path / "runs.db")) as after:
                found = await after.run(run.id)
                if kept == "not stored":  # it can't know that the client has the end, and says it
                    await again.read(EventStream(found, again.request))
                    assert [name for name, _ in again.events()] == ["gap", "values", "end"]
                    again = Client(last_event_id=again.ids()[-1])
                await again.read(EventStream(found, again.request))

        assert (again.status, again.text, again.ended) == (204, "", True)
        assert [kind.partition(b";")[0] for kind in again.types] == [b"text/event-stream"]

    async def test_the_end_from_another_process_is_the_end(self, tmp_path):
        """
        A client that another process told the end of a run whose events aren't stored, or only the
        state before it, gets no event again from the one that has them.
        """
        graphs = {"log": GRAPHS["log"].compile()}
        async with ActorSystem(graphs, saver=SqliteSaver(tmp_path / "runs.db")) as owner:
            run = await owner.start("log", "t", {"foo": "a"})
            await run.wait()
            async with ActorSystem(graphs, saver=SqliteSaver(tmp_path / "runs.db")) as other:
                there = Client(last_event_id="2")
                await there.read(EventStream(await other.run(run.id), there.request))
            gap, state, end = there.ids()
            cut, whole = Client(last_event_id=state), Client(last_event_id=end)
            for client in (cut, whole):
                await client.read(EventStream(run, client.request))

        assert gap == "2"
        assert ([name for name, _ in cut.events()], cut.ids()) == (["end"], [end])
        assert (whole.status, whole.text) == (204, "")

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

    async def test_events_that_are_there_are_one_message(self, system):
        """
        A client that connects late gets what has happened so far in one message of the body.
        """
        bodies: list[bytes] = []

        class Counting(Client):
            async def send(self, message: Any) -> None:
                bodies.append(message.get("body", b""))
                await super().send(message)

        run = await system.start("log", "t", {"foo": "a"}, stream_mode="updates")
        await run.wait()
        client = Counting()
        await client.read(EventStream(run, client.request))

        assert [name for name, _ in client.events()] == ["metadata", "updates", "updates", "end"]
        assert client.ids() == ["1", "2", "3", "4"]
        assert [body.count(b"event: ") for body in bodies if body] == [4]

    async def test_a_message_of_the_body_has_a_bound(self, system, monkeypatch):
        """
        Many events are several messages, so that none of them is large.
        """
        monkeypatch.setattr(event_responses, "PART_BYTES", 100)
        sizes: list[int] = []

        class Measuring(Client):
            async def send(self, message: Any) -> None:
                sizes.append(len(message.get("body", b"")))
                await super().send(message)

        run = await system.start("log", "t", {"foo": "a"}, stream_mode="updates")
        await run.wait()
        client = Measuring()
        await client.read(EventStream(run, client.request))

        assert client.ids() == ["1", "2", "3", "4"]
        assert len([size for size in sizes if size]) > 1
        assert max(sizes) < 250

    async def test_a_comment_never_meets_an_event(self, system):
        """
        Servers are called by one task at a time: a ping waits for an event, and is sent after it.
        """
        inside, most = 0, 0

        class Slow(Client):
            async def send(self, message: Any) -> None:
                nonlocal inside, most
                inside += 1
                most = max(most, inside)
                for _ in range(20):
                    await anyio.lowlevel.checkpoint()
                await super().send(message)
                inside -= 1

        run = await system.start("log", "t", {"foo": "a"}, stream_mode="updates")
        client = Slow()
        await client.read(EventStream(run, client.request, ping_s=0.000_1))

        assert [name for name, _ in client.events()] == ["metadata", "updates", "updates", "end"]
        assert most == 1

    @pytest.mark.parametrize("last", ["99", "\xb2", "-1", "nonsense", "9" * 40])
    async def test_from_a_place_that_never_was(self, system, last):
        """
        An unknown id breaks nothing: the state is sent, or everything from the beginning.
        """
        run = await system.start("log", "t", {"foo": "a"}, stream_mode="updates")
        await run.wait()
        client = Client(last_event_id=last)
        await client.read(EventStream(run, client.request))
        told = [name for name, _ in client.events()]

        assert told[-4:] == ["metadata", "updates", "updates", "end"]
        assert told[:-4] == (["gap", "values"] if last == "99" else [])

    async def test_only_the_headers(self, system):
        """
        A HEAD request is answered at once, also while the run goes on.
        """
        client = Client()
        client.scope["method"] = "HEAD"
        run = await system.start("sleep", "t", {"foo": "a"})
        await client.read(EventStream(run, client.request))

        assert (client.text, client.ended) == ("", True)
        await run.cancel()

    async def test_a_client_that_breaks_off_while_it_is_written_to(self, system):
        """
        A server that raises for a client which has gone ends the stream, and nothing else.
        """
        client = Client()
        run = await system.start("log", "t", {"foo": "a"}, stream_mode="updates")

        async def send(message: Any) -> None:
            raise OSError

        await EventStream(run, client.request)(client.scope, client.receive, send)

        assert await run.wait() == "success"

    async def test_a_reader_that_is_too_slow_may_be_closed(self, system):
        """
        With "close" the stream ends in order and without the run's end, so that its client comes
        back behind the last event that it has.
        """
        client = Client()
        run = await system.start("log", "t", {"foo": "a"}, stream_mode="updates")
        await run.wait()
        await client.read(EventStream(run, client.request, buffer=1, when_full="close"))

        assert (client.events(), client.ended) == ([], True)

    @pytest.mark.parametrize("modes", [None, ["updates", "messages"]])
    async def test_a_closed_client_that_comes_back_goes_on(self, system, modes):
        """
        What it has doesn't count: only events after its last one are ones that it is behind by.
        """
        client = Client(last_event_id="2")
        run = await system.start("log", "t", {"foo": "a"}, stream_mode=["updates", "messages"])
        await run.wait()
        stream = EventStream(run, client.request, stream_mode=modes, buffer=2, when_full="close")
        await client.read(stream)

        assert [name for name, _ in client.events()] == ["updates", "end"]

    async def test_a_policy_that_is_none_is_refused(self, system):
        """
        Before anything is sent.
        """
        run = await system.start("log", "t", {"foo": "a"})
        with pytest.raises(InvalidConfigError, match="unknown when_full"):
            EventStream(run, Client().request, when_full="drop")  # type: ignore[arg-type]


class TestOutcomes:
    async def test_blanks_until_the_run_has_left(self, system):
        """
        A client that waits long is sent blanks, then the output.
        """
        client = Client()
        run = await system.start("sleep", "t", {"foo": "a"})
        async with anyio.create_task_group() as group:
            group.start_soon(client.read, ResultResponse(run, ping_s=0.01))
            await client.hears("  ")
            await run.cancel("enough")

        assert json.loads(client.text)["__error__"]["error"] == "RunCancelledError"

    @pytest.mark.parametrize("leaves", ["continue", "cancel"])
    async def test_a_client_that_no_longer_waits(self, system, leaves):
        """
        The request ends when its client has gone, and the run too if that is wanted.
        """
        client = Client()
        run = await system.start("sleep", "t", {"foo": "a"})
        async with anyio.create_task_group() as group:
            group.start_soon(client.read, ResultResponse(run, on_disconnect=leaves, ping_s=0.01))
            await client.hears(" ")
            client.leave()

        assert run.status == ("cancelled" if leaves == "cancel" else "running")
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
