"""Raw floors of message passing: what one message there and one back cost between two tasks.

A superstep through a supervisor and a node actor is at least one such round trip.
"""

import asyncio
import math
import time
from collections import deque
from typing import Any

import anyio


async def mailbox_streams(*, round_trips: int, nowait: bool) -> dict[str, Any]:
    """Two tasks and two anyio memory object streams; sends awaited, or `send_nowait`."""
    size = math.inf if nowait else 1
    ask, asked = anyio.create_memory_object_stream[int](size)
    reply, replied = anyio.create_memory_object_stream[int](size)

    async def echo() -> None:
        async for number in asked:
            if nowait:
                reply.send_nowait(number)
            else:
                await reply.send(number)

    async with ask, asked, reply, replied, anyio.create_task_group() as group:
        group.start_soon(echo)
        started = time.perf_counter()
        for number in range(round_trips):
            if nowait:
                ask.send_nowait(number)
            else:
                await ask.send(number)
            assert await replied.receive() == number
        seconds = time.perf_counter() - started
        ask.close()
    return {"seconds": seconds, "units": round_trips}


class DequeMailbox:
    """The smallest mailbox: a deque, and at most one reader, who waits on a future."""

    def __init__(self) -> None:
        self.items: deque[int] = deque()
        self.parked: asyncio.Future[None] | None = None

    def put(self, item: int) -> None:
        """Add an item, and wake the reader if it waits."""
        self.items.append(item)
        if self.parked is not None:
            self.parked.set_result(None)
            self.parked = None

    async def get(self) -> int:
        """The next item."""
        while not self.items:
            self.parked = asyncio.get_running_loop().create_future()
            await self.parked
        return self.items.popleft()


async def mailbox_deque(*, round_trips: int) -> dict[str, Any]:
    """Two asyncio tasks and two deque mailboxes."""
    there, back = DequeMailbox(), DequeMailbox()

    async def echo() -> None:
        for _ in range(round_trips):
            back.put(await there.get())

    other = asyncio.create_task(echo())
    started = time.perf_counter()
    for number in range(round_trips):
        there.put(number)
        assert await back.get() == number
    seconds = time.perf_counter() - started
    await other
    return {"seconds": seconds, "units": round_trips}
