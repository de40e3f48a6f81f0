"""The stream of a thread, for clients that come back to another server."""

import json
from datetime import UTC, datetime
from typing import Any

import anyio
import httpx
import pytest

from actorgraph import ActorSystem, InMemorySaver, interrupt, sleep
from actorgraph.web import GraphRoutes
from actorgraph.web.endpoints.state_updates import WAITING_MAX, StateUpdates
from actorgraph.web.stream_protocol.event_numbers import first_numbers, number_of
from tests.support.gates import PATIENCE_S, Turnstile, settled
from tests.support.graphs import in_a_row, writer
from tests.support.wall_clock import forward
from tests.web.test_streams import Client

__all__ = ["forward"]


def system_over(saver: Any, slow: Turnstile) -> ActorSystem:
    """A life of the server, whose runs wait in the middle."""
    graph = in_a_row({"a": writer("a"), "b": slow})
    return ActorSystem({"g": graph}, saver=saver, drain_timeout_s=0.1)


class Poster(Client):
    """A client that subscribes to the events of a thread by the streaming protocol."""

    def __init__(self, body: Any) -> None:
        super().__init__()
        self.scope |= {"method": "POST", "path": "/threads/t/stream/events", "query_string": b""}
        self.scope["headers"] = [(b"content-type", b"application/json")]
        self._body: Any = {"type": "http.request", "body": json.dumps(body).encode()}

    async def receive(self) -> Any:
        body, self._body = self._body, None
        return body or await super().receive()


@pytest.mark.one_loop
@pytest.mark.parametrize("protocol", [True, False])
async def test_a_run_to_come_holds_no_stream(forward, protocol):
    """
    A stream of a thread goes on with the runs of now; that of a later time comes in its turn.
    """
    graph = in_a_row({"a": writer("a")})
    with anyio.fail_after(PATIENCE_S):
        async with ActorSystem({"g": graph}, saver=InMemorySaver()) as system:
            first = await system.start("g", "t", {"bar": []}, stream_mode="updates")
            await first.result()
            late = await system.start("g", "t", {"bar": []}, delay_s=600, stream_mode="updates")
            client = Poster({"channels": ["lifecycle"]}) if protocol else Client()
            if not protocol:
                client.scope |= {"path": "/threads/t/stream", "query_string": b""}
                client.scope["headers"] = [(b"last-event-id", f"{first.id}.1".encode())]
            async with anyio.create_task_group() as group:
                group.start_soon(GraphRoutes(system), client.scope, client.receive, client.send)
                await client.hears(first.id)
                now = await system.start("g", "t", {"bar": []}, stream_mode="updates")
                await client.hears(now.id)
                assert late.id not in client.text
                forward(700)
                await system.recover()
                await client.hears(late.id)
                await late.result()
                client.leave()

    if protocol:  # numbers grow, so that a client that comes back misses none of it
        numbers = [one["seq"] for _, one in client.events() if "seq" in one]
        assert numbers == sorted(set(numbers))


def subscriber(first: Any, *, protocol: bool, since: int | None = None) -> Client:
    """A client of either stream, which has seen the first run's first event.

    Args:
        since: the number that a client of the protocol has; None for none.
    """
    if protocol:
        seen = {} if since is None else {"since": since}
        return Poster({"channels": ["lifecycle"], **seen})
    client = Client(last_event_id="")
    client.scope |= {"path": "/threads/t/stream", "query_string": b""}
    client.scope["headers"] = [(b"last-event-id", f"{first.id}.1".encode())]
    return client


@pytest.mark.one_loop
@pytest.mark.parametrize("protocol", [True, False])
async def test_a_cancelled_run_to_come_hides_no_run_of_now(protocol):
    """
    A reminder that is cancelled before its time is in no stream, and the next run is.
    """
    graph = in_a_row({"a": writer("a")})
    with anyio.fail_after(PATIENCE_S):
        async with ActorSystem({"g": graph}, saver=InMemorySaver()) as system:
            first = await system.start("g", "t", {"bar": []}, stream_mode="updates")
            await first.result()
            late = await system.start("g", "t", {"bar": []}, delay_s=600, stream_mode="updates")
            assert await late.cancel() == "cancelled"
            client = subscriber(first, protocol=protocol)
            async with anyio.create_task_group() as group:
                group.start_soon(GraphRoutes(system), client.scope, client.receive, client.send)
                await client.hears(first.id)
                now = await system.start("g", "t", {"bar": []}, stream_mode="updates")
                with anyio.move_on_after(1) as heard:
                    await client.hears(now.id)
                client.leave()

    assert not heard.cancelled_caught
    assert late.id not in client.text


@pytest.mark.one_loop
@pytest.mark.parametrize("protocol", [True, False])
async def test_a_run_that_is_taken_up_behind_a_later_one_is_shown(protocol):
    """
    A delayed run that was due while no process was open is taken up when a run of now waits for
    it; streams show both: one that was open before, and one that comes back in between.
    """
    saver = InMemorySaver()
    with anyio.fail_after(PATIENCE_S):
        async with system_over(saver, Turnstile()) as one:
            late = await one.start("g", "t", {"bar": []}, delay_s=0.1, stream_mode="updates")
            assert late.waits_for_time
        left_s = (late.due_at - datetime.now(UTC)).total_seconds()
        await anyio.sleep(max(0.0, left_s) + 0.01)
        async with system_over(saver, slow := Turnstile()) as two:
            now = await two.start("g", "t", {"bar": []}, if_busy="enqueue", stream_mode="updates")
            client = subscriber(now, protocol=protocol)
            async with anyio.create_task_group() as group:
                routes = GraphRoutes(two)
                group.start_soon(routes, client.scope, client.receive, client.send)
                await slow.entered.wait()  # with the late run
                first = number_of(*first_numbers([now.row.run]), 1, 0)
                other = subscriber(now, protocol=protocol, since=first)
                group.start_soon(routes, other.scope, other.receive, other.send)
                slow.out.set()
                for one in (client, other):
                    with anyio.move_on_after(1) as heard:
                        await one.hears(late.id)
                    one.leave()
                    assert not heard.cancelled_caught


@pytest.mark.one_loop
@pytest.mark.parametrize("resumable", [True, False])
async def test_a_thread_is_read_on_where_its_run_is_taken_up(resumable):
    """
    A client that comes back before the run of a dead server is taken up gets the gap as soon
    as it is, then of the run's end, then of the thread's next run.
    """
    saver, client = InMemorySaver(), Client(last_event_id="")
    with anyio.fail_after(PATIENCE_S):
        async with system_over(saver, slow := Turnstile()) as first:
            run = await first.start(
                "g", "t", {"bar": []}, resumable=resumable, stream_mode="updates"
            )
            await slow.entered.wait()
            await first._drop_lease(first._host)  # noqa: SLF001 - as when it is dead
            async with system_over(saver, slow := Turnstile({"bar": ["b"]})) as second:
                client.scope |= {
                    "path": "/threads/t/stream",
                    "query_string": b"",
                    "headers": [(b"last-event-id", f"{run.id}.2".encode())],
                }
                async with anyio.create_task_group() as group:
                    routes = GraphRoutes(second)
                    group.start_soon(routes, client.scope, client.receive, client.send)
                    await settled()
                    await second.recover()
                    await client.hears("event: metadata")
                    early = [name for name, _ in client.events()]
                    slow.out.set()
                    await client.hears("event: end")
                    told = [name for name, _ in client.events()]
                    again = await second.start("g", "t", {"bar": []}, stream_mode="updates")
                    await client.hears(again.id)
                    client.leave()

    assert early == ["gap", "values", "metadata"]
    assert told[-2:] == ["updates", "end"]


@pytest.mark.one_loop
@pytest.mark.parametrize("resumable", [True, False])
@pytest.mark.parametrize("protocol", [True, False])
async def test_a_stream_ends_when_its_run_leaves_the_server(protocol, resumable):
    """
    A stream of a thread whose run was taken over by another server ends; the client that connects
    again, to the same server, gets the run's rest and end.
    """
    saver, taken_over = InMemorySaver(), Turnstile({"bar": ["b"]})
    with anyio.fail_after(PATIENCE_S):
        async with system_over(saver, slow := Turnstile()) as first:
            run = await first.start(
                "g", "t", {"bar": []}, resumable=resumable, stream_mode="updates"
            )
            routes, client = GraphRoutes(first), subscriber(run, protocol=protocol)
            async with system_over(saver, taken_over) as second:
                async with anyio.create_task_group() as group:
                    group.start_soon(routes, client.scope, client.receive, client.send)
                    await slow.entered.wait()
                    await client.hears("running" if protocol else "updates")
                    await first._drop_lease(first._host)  # noqa: SLF001 - as when it stood
                    await second.recover()
                    await taken_over.entered.wait()
                    slow.out.set()
                again = subscriber(run, protocol=protocol)
                async with anyio.create_task_group() as group:
                    group.start_soon(routes, again.scope, again.receive, again.send)
                    taken_over.out.set()
                    await again.hears("completed" if protocol else "event: end")
                    again.leave()

    assert client.ended
    assert ("completed" in client.text, "event: end" in client.text) == (False, False)


def failing(_: Any) -> Any:
    """A node that fails."""
    raise ValueError("secret of the node")


def asking(_: Any) -> Any:
    """A node with a question."""
    return {"bar": [interrupt("secret of the question")]}


def napping(_: Any) -> Any:
    """A node that sleeps."""
    sleep(3600)


class TestSignals:
    @pytest.mark.parametrize(
        ("last", "state"),
        [
            (writer("b"), "done"),
            (failing, "failed"),
            (asking, "waiting"),
            (napping, "sleeping"),
        ],
    )
    async def test_signals_have_no_values(self, last, state):
        """
        Mode `signals` says what happened, by the names and states of tasks, and no value of it.
        """
        client, graph = Client(), in_a_row({"a": writer("a"), "b": last})
        modes = ("values", "updates", "tasks", "checkpoints")
        client.scope |= {"path": "/threads/t/stream", "query_string": b"stream_mode=signals"}
        async with ActorSystem({"g": graph}, saver=InMemorySaver()) as system:
            routes = GraphRoutes(system)
            with anyio.fail_after(PATIENCE_S):
                first = await system.start("g", "t", {"bar": ["secret"]}, stream_mode=modes)
                await first.wait()
                client.scope["headers"] = [(b"last-event-id", f"{first.id}.0".encode())]
                async with anyio.create_task_group() as group:
                    group.start_soon(routes, client.scope, client.receive, client.send)
                    await client.hears("event: end")
                    client.leave()

        told = client.events()
        tasks = [(one["name"], one["state"]) for name, one in told if name == "tasks"]
        assert tasks == [("a", "running"), ("a", "done"), ("b", "running"), ("b", state)]
        assert all(one == {} for name, one in told if name in {*modes} - {"tasks"})
        assert {name for name, _ in told} >= {*modes}
        assert "secret" not in client.text.partition("event: error")[0]


class TestStateUpdates:
    @pytest.mark.parametrize("also", ["", ",run_modes"])
    async def test_updates_of_a_threads_state_are_streamed(self, also):
        """
        Mode `state_update` sends the state after each update by a client, and runs if asked to.
        """
        saver, client = InMemorySaver(), Client()
        graph = in_a_row({"a": writer("a"), "b": writer("b")})
        client.scope |= {
            "path": "/threads/t/stream",
            "query_string": f"stream_mode=state_update{also}".encode(),
        }
        body = {"assistant_id": "g", "input": {"bar": []}, "if_not_exists": "create"}
        async with ActorSystem({"g": graph}, saver=saver) as system:
            routes = GraphRoutes(system)
            transport = httpx.ASGITransport(routes)
            with anyio.fail_after(PATIENCE_S):
                async with (
                    httpx.AsyncClient(transport=transport, base_url="http://t") as api,
                    anyio.create_task_group() as group,
                ):
                    await api.post("/threads/t/runs/wait", json=body)
                    group.start_soon(routes, client.scope, client.receive, client.send)
                    await settled()
                    for path, method in (("/threads/t/state", "POST"), ("/threads/t", "PATCH")):
                        update = {"values": {"bar": [method]}}
                        assert (await api.request(method, path, json=update)).status_code == 200
                        await client.hears(f'"{method}"]')
                    await api.post("/threads/t/runs/wait", json=body)
                    await settled()
                    client.leave()

        told = client.events()
        bars = [data["state"]["values"]["bar"][2:] for name, data in told if name == "state_update"]
        assert bars == [["POST"], ["POST", "PATCH"]]
        assert ("end" in [name for name, _ in told]) == bool(also)

    async def test_nothing_is_kept_for_a_stream_that_has_ended(self):
        """
        When its client leaves, a stream is followed no more.
        """
        updates = StateUpdates()
        with updates.follow("t") as one, updates.follow("t"):
            updates.publish("t", 1)
            assert await one.receive() == 1

        assert not updates.is_read("t")

    async def test_a_slow_stream_misses_updates(self):
        """
        Of more updates than a stream can hold the later ones are left out; none waits for it.
        """
        updates = StateUpdates()
        with updates.follow("t") as slow:
            for number in range(WAITING_MAX + 5):
                updates.publish("t", number)

            assert slow.statistics().current_buffer_used == WAITING_MAX
