"""Places in which dispatchers are checked: an engine, a store of runs, links to them."""

import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio
import msgspec

from actorgraph.ports import Dispatcher, DispatchLink
from actorgraph.runtime.mailbox import Mailbox
from actorgraph.values.dispatch import Hint, News

PATIENCE_S = 30.0
"""Seconds after which a check gives up."""


class DispatchPlace(msgspec.Struct, frozen=True):
    """An empty engine and an empty store of runs, over which a dispatcher is checked.

    Attributes:
        dispatcher: makes a dispatcher, as another process would; all carry for each other.
        saver: makes a saver that stores runs, as another process would; all over one store.
        again_s: seconds after which a hint that was not settled comes again, at most.
        garble: puts messages into a queue that can't be read as hints, and others among the news,
            of every kind that a client of the engine can. For the group `engine`.
        away: as `async with`, keeps the engine from answering until the block ends. For the group
            `engine`.
    """

    dispatcher: Callable[[], Dispatcher]
    saver: Callable[[], Any]
    again_s: float
    garble: Callable[[str], Awaitable[None]] | None = None
    away: Callable[[], AbstractAsyncContextManager[object]] | None = None


class Linked(msgspec.Struct):
    """A link, and the news that it has brought."""

    link: DispatchLink
    heard: Mailbox[News]
    is_closed: bool = False


@asynccontextmanager
async def linked(place: DispatchPlace) -> AsyncGenerator[Linked]:
    """Open a link of another process, and close it unless it is closed."""
    heard: Mailbox[News] = Mailbox()
    link = await place.dispatcher().open(place.saver(), heard.put)
    linked = Linked(link, heard)
    try:
        yield linked
    finally:
        with anyio.CancelScope(shield=True):
            if not linked.is_closed:
                await link.close()


def hints(count: int, queue: str = "g") -> list[Hint]:
    """Make hints of as many runs."""
    return [Hint(os.urandom(16), queue) for _ in range(count)]


async def none_left(link: DispatchLink, queues: Sequence[str], wait_s: float) -> None:
    """Fail if a hint comes within some seconds."""
    with anyio.move_on_after(wait_s) as scope:
        taken = await link.take(queues, 10)
        raise AssertionError(f"{len(taken)} hints came that were settled, or never announced")
    assert scope.cancelled_caught
