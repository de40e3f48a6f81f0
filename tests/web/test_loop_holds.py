"""No request holds the event loop: every route, with a sample of the largest bodies it takes."""

import random
import time
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from actorgraph.loops import TURN_S, in_turns
from actorgraph.web import Limits
from actorgraph.web.routes import ENDPOINTS
from tests.support.every_saver import Store
from tests.web.loop_holds import LIMIT_S, everything, served, slowness, watched

EVERY = 80


@pytest.mark.filterwarnings("ignore::actorgraph.errors.UnknownChannelWarning")
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_no_route_holds_the_loop(tmp_path: Path):
    """
    Every route is asked, some of them with a field as large as the limits allow; none holds the
    loop above 50 ms.
    """
    limit_s, first = LIMIT_S * max(1.0, slowness()), random.randrange(EVERY)
    async with served(Store("sqlite", tmp_path), Limits()) as place:
        await place.fill(10, 10, 5_000)
        holds, refused = await everything(place, limit_s, lambda number: number % EVERY == first)

    assert [hold for hold in holds if hold[0] > limit_s] == [], f"first={first}"
    assert refused == []
    assert len(holds) > len(ENDPOINTS)


async def test_a_hold_is_seen():
    """
    The measure shows how long a task has computed without a pause.
    """
    held: list[float] = []
    async with watched(held):
        await anyio.sleep(0.01)
        until = time.thread_time() + 0.06
        while time.thread_time() < until:
            pass
        await anyio.sleep(0.01)

    assert 0.06 <= held[0] < 0.09


async def test_a_list_is_converted_in_turns():
    """
    While a list of slow items is converted, another task runs as often.
    """
    seen: list[Any] = []

    def convert(number: int) -> int:
        until = time.perf_counter() + TURN_S
        while time.perf_counter() <= until:
            pass
        seen.append(number)
        return -number

    async def other() -> None:
        while True:
            seen.append("other")
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as group:
        group.start_soon(other)
        await anyio.lowlevel.checkpoint()
        assert await in_turns(range(5), convert) == [0, -1, -2, -3, -4]
        group.cancel_scope.cancel()

    assert seen[seen.index(0) :].count("other") >= 4
