"""Graphs whose questions have times, over every saver that keeps alarms, under a clock that stands.

`timed` opens a saver and a ManualClock over it: `async with timed.system(graph) as system`.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import anyio
import pytest

from actorgraph import ActorSystem
from actorgraph.testing import ManualClock
from tests.support.every_saver import Store
from tests.support.gates import PATIENCE_S
from tests.support.systems import place

__all__ = ["place"]

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


class Timed:
    """A saver, and the clock of its store.

    Attributes:
        saver: open until the test ends.
        clock: stands until the test moves it.
    """

    def __init__(self, saver: Any, clock: ManualClock) -> None:
        self.saver = saver
        self.clock = clock

    @asynccontextmanager
    async def system(self, graph: Any, **options: Any) -> AsyncIterator[ActorSystem]:
        """A system with one graph, "g"."""
        with anyio.fail_after(PATIENCE_S):
            async with ActorSystem({"g": graph}, saver=self.saver, **options) as system:
                yield system

    async def advance(self, length: timedelta) -> None:
        """Move the clock on, within PATIENCE_S."""
        with anyio.fail_after(PATIENCE_S):
            await self.clock.advance(length)


@pytest.fixture
async def timed(place: Store) -> AsyncIterator[Timed]:
    """An open saver, under a clock that stands."""
    async with place.saver() as saver:
        with ManualClock(saver) as clock:
            yield Timed(saver, clock)


async def asked(graph: Any, thread_id: str = "t") -> list[Any]:
    """The open questions of a thread."""
    config = {"configurable": {"thread_id": thread_id}}
    return list((await graph.aget_state(config)).interrupts)
