"""The stream of a thread, for clients that come back to another server."""

from typing import Any

import anyio
import pytest

from actorgraph import ActorSystem, InMemorySaver
from actorgraph.web import GraphRoutes
from tests.support.gates import PATIENCE_S, Turnstile, settled
from tests.support.graphs import in_a_row, writer
from tests.web.test_streams import Client


def system_over(saver: Any, slow: Turnstile) -> ActorSystem:
    """A life of the server, whose runs wait in the middle."""
    graph = in_a_row({"a": writer("a"), "b": slow})
    return ActorSystem({"g": graph}, saver=saver, drain_timeout_s=0.1)


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
