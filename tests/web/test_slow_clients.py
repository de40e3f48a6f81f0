"""Clients that don't read: what becomes of their runs, and what they get when they do."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from actorgraph import ActorSystem, InMemorySaver, get_stream_writer
from actorgraph.api.system.run_handle import Run
from actorgraph.web import EventStream
from tests.support.gates import PATIENCE_S, settled
from tests.support.graphs import in_a_row
from tests.web.test_streams import Client

EVENTS = 100
RING = 8


async def flood(state: Any) -> dict[str, Any]:
    """Write a lot."""
    write = get_stream_writer()
    for number in range(EVENTS):
        await write.asend(number)
    return {"bar": ["over"]}


class Standing(Client):
    """A client that takes the first event, and no other one before it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.stands = anyio.Event()
        self.go_on = anyio.Event()

    async def send(self, message: Any) -> None:
        await super().send(message)
        if "event: metadata" in self.text:
            self.stands.set()
            await self.go_on.wait()


@asynccontextmanager
async def stood_before(client: Standing, **options: Any) -> AsyncIterator[Run]:
    """A run whose reader pauses; its body is what happens meanwhile."""
    graphs = {"g": in_a_row({"flood": flood})}
    system = ActorSystem(graphs, saver=InMemorySaver(), keep_events_in_memory=RING)
    with anyio.fail_after(PATIENCE_S):
        async with system, anyio.create_task_group() as group:
            # It does not begin before its reader is there.
            first = await system.start("g", "t", {"bar": []}, stream_mode="custom")
            run = await system.start("g", "t", {"bar": []}, stream_mode="custom", if_busy="enqueue")
            group.start_soon(client.read, EventStream(run, client.request, **options))
            await first.wait()
            await client.stands.wait()
            yield run
            client.go_on.set()


async def test_memory_is_bounded_and_missed_events_are_a_gap():
    """
    With "drop_oldest" the run goes on: its ring keeps the newest events, and the client learns
    which ones it has missed.
    """
    client = Standing()
    async with stood_before(client, when_full="drop_oldest", buffer=4) as run:
        assert await run.wait() == "success"
        held = len(run._job.journal._ring)  # noqa: SLF001
    told = client.events()
    numbers = [data for name, data in told if name == "custom"]
    gaps = [data for name, data in told if name == "gap"]

    assert held == RING
    assert sum(gap["to"] - gap["from"] + 1 for gap in gaps) + len(numbers) == EVENTS
    assert ("values", {"bar": ["over"] * 2}) in told
    assert told[-1][0] == "end"


async def test_a_run_waits_for_its_client():
    """
    With "block" it makes no more events than the buffer holds, and the client gets all of them.
    """
    client = Standing()
    async with stood_before(client, when_full="block", buffer=4) as run:
        await settled()
        assert run.status == "running"
        assert run._job.journal.last <= 8  # noqa: SLF001
    told = client.events()

    assert [data for name, data in told if name == "custom"] == list(range(EVENTS))
    assert "gap" not in [name for name, _ in told]


@pytest.mark.parametrize("policy", ["block", "drop_oldest"])
async def test_a_client_that_goes_while_it_is_waited_for(policy):
    """
    A run that waits for a client goes on when that has gone.
    """
    client = Standing()
    async with stood_before(client, when_full=policy, buffer=4) as run:
        client.leave()
        assert await run.wait() == "success"


async def test_a_run_that_is_faster_than_its_response():
    """
    With "block" a run waits from the moment when its response is made: what it writes before the
    server begins to send is not dropped.
    """
    client = Client()
    graphs = {"g": in_a_row({"flood": flood})}
    system = ActorSystem(graphs, saver=InMemorySaver(), keep_events_in_memory=RING)
    with anyio.fail_after(PATIENCE_S):
        async with system:
            run = await system.start("g", "t", {"bar": []}, stream_mode="custom")
            response = EventStream(run, client.request, when_full="block", buffer=4)
            await settled()
            assert run.status == "running"
            await client.read(response)
    told = client.events()

    assert [data for name, data in told if name == "custom"] == list(range(EVENTS))
    assert "gap" not in [name for name, _ in told]
