"""Faults of dispatchers, each planted in the links of an adapter that works, and its check."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from actorgraph.testing import DispatchPlace
from actorgraph.values.dispatch import Hint, News

replace = msgspec.structs.replace


class FaultyLink:
    """A link that forwards everything; subclasses leave out one part of the contract."""

    def __init__(self, link: Any) -> None:
        self.link = link

    async def close(self) -> None:
        """Forwarded."""
        await self.link.close()

    async def announce(self, hints: Sequence[Hint]) -> None:
        """Forwarded."""
        await self.link.announce(hints)

    async def take(self, queues: Sequence[str], limit: int) -> Sequence[Hint]:
        """Forwarded."""
        return await self.link.take(queues, limit)

    async def settle(self, hints: Sequence[Hint]) -> None:
        """Forwarded."""
        await self.link.settle(hints)

    async def release(self, hints: Sequence[Hint]) -> None:
        """Forwarded."""
        await self.link.release(hints)

    async def publish(self, news: News) -> None:
        """Forwarded."""
        await self.link.publish(news)


class NoTime(FaultyLink):
    """Hints are delivered before their time."""

    async def announce(self, hints: Sequence[Hint]) -> None:
        """Forwarded without times."""
        await self.link.announce([replace(hint, due=0) for hint in hints])


class NoQueues(FaultyLink):
    """Hints of all queues are in one."""

    async def announce(self, hints: Sequence[Hint]) -> None:
        """Forwarded to one queue."""
        await self.link.announce([replace(hint, queue="g") for hint in hints])


class NoRelease(FaultyLink):
    """Hints that are given back are over."""

    async def release(self, hints: Sequence[Hint]) -> None:
        """Settled instead."""
        await self.link.settle(hints)


class NoSettling(FaultyLink):
    """Hints that were settled come again."""

    async def settle(self, hints: Sequence[Hint]) -> None:
        """Given back instead."""
        await self.link.release(hints)


class OverLimit(FaultyLink):
    """More hints are taken than were asked for."""

    async def take(self, queues: Sequence[str], limit: int) -> Sequence[Hint]:
        """Forwarded with a higher limit."""
        return await self.link.take(queues, limit + 50)


class Once(FaultyLink):
    """A run has one hint in its life."""

    def __init__(self, link: Any) -> None:
        super().__init__(link)
        self.seen: set[bytes] = set()

    async def announce(self, hints: Sequence[Hint]) -> None:
        """Forwarded for new runs."""
        new = [hint for hint in hints if hint.run not in self.seen]
        self.seen |= {hint.run for hint in new}
        await self.link.announce(new)


class NoNews(FaultyLink):
    """News reach no system."""

    async def publish(self, news: News) -> None:
        """Left out."""


class ShortNews(FaultyLink):
    """Only the first ids of news are sent."""

    async def publish(self, news: News) -> None:
        """Forwarded, cut."""
        await self.link.publish(News(news.stored[:500], news.cancelled))


class NoCancellations(FaultyLink):
    """News have no cancelled runs."""

    async def publish(self, news: News) -> None:
        """Forwarded without them."""
        await self.link.publish(News(news.stored, ()))


class LostAtCancel(FaultyLink):
    """Each `take` has its hints for itself before it returns them; a cancelled one loses them."""

    async def take(self, queues: Sequence[str], limit: int) -> Sequence[Hint]:
        """Forwarded; the hints are settled before a last checkpoint."""
        import anyio.lowlevel

        found = await self.link.take(queues, limit)
        await self.link.settle(found)
        await anyio.lowlevel.checkpoint()
        return found


FAULTS: dict[str, tuple[type[FaultyLink], str]] = {
    "no times": (NoTime, "a_hint_waits_for_its_time"),
    "no queues": (NoQueues, "a_rescue_has_a_hint_beside_an_old_one"),
    "no release": (NoRelease, "a_released_hint_comes_again_at_once"),
    "no settling": (NoSettling, "a_settled_hint_does_not_come_again"),
    "over the limit": (OverLimit, "a_take_has_at_most_its_limit"),
    "once in its life": (Once, "a_settled_run_is_announced_again_in_its_queue"),
    "no news": (NoNews, "news_reach_all_systems"),
    "cut news": (ShortNews, "news_reach_all_systems"),
    "no cancellations": (NoCancellations, "news_reach_all_systems"),
    "settled before it returns": (LostAtCancel, "an_unsettled_hint_comes_again"),
}
"""Name -> the link with the fault, and the check that finds it."""


class Faulty:
    """A dispatcher whose links have a fault."""

    def __init__(self, inner: Any, fault: type[FaultyLink]) -> None:
        self._inner, self._fault = inner, fault
        self.in_commit = inner.in_commit

    async def open(self, saver: Any, heard: Callable[[News], None]) -> FaultyLink:
        """Link, with the fault."""
        return self._fault(await self._inner.open(saver, heard))


def faulty(place: DispatchPlace, fault: type[FaultyLink]) -> DispatchPlace:
    """The same place with a fault in each link."""
    return DispatchPlace(lambda: Faulty(place.dispatcher(), fault), place.saver, place.again_s)
