"""Start many coroutines at once on the running event loop, whichever it is.

`asyncio.gather` for both libraries on asyncio: it is what programs use, and anyio's task
group would add 10 us to each run.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any


def run(backend: str, main: Callable[[], Awaitable[Any]]) -> Any:
    """Run an async program to its end on asyncio or trio."""
    if backend == "trio":
        import trio

        return trio.run(main)
    return asyncio.run(main())


async def gather(programs: Sequence[Callable[[], Awaitable[Any]]]) -> list[Any]:
    """Run all of them at once; their results, in order."""
    trio = sys.modules.get("trio")
    if trio is None or not trio.lowlevel.in_trio_run():
        return await asyncio.gather(*(program() for program in programs))

    results: list[Any] = [None] * len(programs)

    async def fill(index: int) -> None:
        results[index] = await programs[index]()

    async with trio.open_nursery() as nursery:
        for index in range(len(programs)):
            nursery.start_soon(fill, index)
    return results


async def turn() -> None:
    """Give other tasks a turn."""
    trio = sys.modules.get("trio")
    if trio is None or not trio.lowlevel.in_trio_run():
        await asyncio.sleep(0)
    else:
        await trio.lowlevel.checkpoint()
