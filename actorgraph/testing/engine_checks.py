"""The contract of dispatchers whose engine goes away, or has messages of others.

The group `engine` of `dispatcher_checks`.
"""

import os
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from typing import TypeVar

import anyio

from actorgraph.errors import StorageError
from actorgraph.testing.dispatch_place import (
    PATIENCE_S,
    DispatchPlace,
    hints,
    linked,
    none_left,
)
from actorgraph.values.dispatch import News

T = TypeVar("T")


async def _garble(place: DispatchPlace, queue: str) -> None:
    assert place.garble is not None, "the group `engine` needs DispatchPlace(garble=)"
    await place.garble(queue)


def _away(place: DispatchPlace) -> AbstractAsyncContextManager[object]:
    assert place.away is not None, "the group `engine` needs DispatchPlace(away=)"
    return place.away()


async def messages_that_are_no_hints_hold_nothing_up(place: DispatchPlace) -> None:
    """Hints behind messages that can't be read come at once, and those never come."""
    async with linked(place) as one:
        await _garble(place, "g")
        sent = hints(5)
        await one.link.announce(sent)
        with anyio.fail_after(PATIENCE_S):
            found: set[bytes] = set()
            while len(found) < 5:
                taken = await one.link.take(["g"], 3)
                await one.link.settle(taken)
                found |= {h.run for h in taken}
        assert found == {h.run for h in sent}
        await none_left(one.link, ["g"], place.again_s * 1.5)


async def messages_that_are_no_news_end_no_listening(place: DispatchPlace) -> None:
    """News that are published behind messages that can't be read reach every link."""
    async with linked(place) as one, linked(place) as other:
        await _garble(place, "g")
        run = os.urandom(16)
        await one.link.publish(News((run,)))
        for each in (one, other):
            with anyio.fail_after(PATIENCE_S):
                while run not in (await each.heard.get()).stored:
                    pass


async def an_absent_engine_holds_up_no_call(place: DispatchPlace) -> None:
    """While the engine is away calls end with StorageError, and a link closes without an error."""
    async with linked(place) as one, _away(place):
        for call in (
            lambda: one.link.announce(hints(1)),
            lambda: one.link.publish(News((os.urandom(16),))),
            lambda: one.link.publish(News()),
            lambda: one.link.take(["g"], 1),
        ):
            with anyio.fail_after(PATIENCE_S):
                try:
                    await call()
                except StorageError:
                    continue
            raise AssertionError("a call has succeeded without its engine")
        with anyio.fail_after(PATIENCE_S):
            one.is_closed = True
            await one.link.close()


async def a_link_works_again_when_its_engine_is_back(place: DispatchPlace) -> None:
    """Hints and news come over a link whose engine was away."""
    async with linked(place) as one:
        async with _away(place):
            with suppress(StorageError):
                await one.link.announce(hints(1))
        sent, seen = hints(1), set[bytes]()
        with anyio.fail_after(PATIENCE_S):
            await _again(lambda: one.link.announce(sent))
            while sent[0].run not in seen:
                seen |= {h.run for h in await _again(lambda: one.link.take(["g"], 10))}
            while True:  # news are only for who is connected when they are published
                await _again(lambda: one.link.publish(News((sent[0].run,))))
                with anyio.move_on_after(0.5):
                    while sent[0].run not in (await one.heard.get()).stored:
                        pass
                    return


async def _again(call: Callable[[], Awaitable[T]]) -> T:
    """Call until the engine answers."""
    while True:
        try:
            return await call()
        except StorageError:
            await anyio.sleep(0.1)


ENGINE_CHECKS = (
    messages_that_are_no_hints_hold_nothing_up,
    messages_that_are_no_news_end_no_listening,
    an_absent_engine_holds_up_no_call,
    a_link_works_again_when_its_engine_is_back,
)
"""The checks of the group."""
