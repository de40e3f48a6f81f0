"""InMemoryDispatcher: hints between the systems of one process, without an engine."""

import heapq
import threading
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from actorgraph.runtime.mailbox import Gate
from actorgraph.storage.store_clock import StoreClock, clock_of
from actorgraph.values.dispatch import Hint, News

_Entry = tuple[int, int, Hint]
"""Priority, negative; number; hint."""


class InMemoryDispatcher:
    """Carries hints between ActorSystems of one process; pass the same object to each.

    For tests, and for several event loops in one process. Hints are lost with the process; the
    systems' sweeps find the runs that the saver has.
    """

    in_commit = False

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.queues: dict[str, list[_Entry]] = {}
        self.waiting: set[tuple[bytes, str]] = set()
        self.numbers = count()
        self.more = Gate()
        self.links: list[_MemoryLink] = []

    async def open(self, saver: Any, heard: Callable[[News], None]) -> "_MemoryLink":
        """See `ports.Dispatcher`."""
        link = _MemoryLink(self, heard, clock_of(saver))
        self.links.append(link)
        return link

    def put(self, hints: Sequence[Hint]) -> None:
        """Queue hints, but for those of runs that have one in the same queue already."""
        with self.lock:
            for hint in hints:
                if (hint.run, hint.queue) not in self.waiting:
                    self.waiting.add((hint.run, hint.queue))
                    entry = (-hint.priority, next(self.numbers), hint)
                    heapq.heappush(self.queues.setdefault(hint.queue, []), entry)
            more, self.more = self.more, Gate()
        more.open()

    def take(self, queues: Sequence[str], limit: int, now: int) -> tuple[list[Hint], Gate, int]:
        """Take hints that are due.

        Args:
            queues, limit: see `ports.DispatchLink`.
            now: by the store's clock, in microseconds since 1970-01-01 UTC.

        Returns: the hints; a gate that opens when more are queued; when the next is due, 0 for
            none.
        """
        found, next_due = list[Hint](), 0
        with self.lock:
            if self.more.is_open:  # a clock that a test moves has woken those who wait
                self.more = Gate()
            for name in queues:
                later: list[_Entry] = []
                queue = self.queues.get(name, [])
                while queue and len(found) < limit:
                    entry = heapq.heappop(queue)
                    hint = entry[2]
                    if hint.due <= now:
                        found.append(hint)
                        self.waiting.discard((hint.run, hint.queue))
                    else:
                        later.append(entry)
                        next_due = min(next_due or hint.due, hint.due)
                for entry in later:
                    heapq.heappush(queue, entry)
            return found, self.more, next_due


class _MemoryLink:
    """The link of one system."""

    def __init__(
        self, exchange: InMemoryDispatcher, heard: Callable[[News], None], clock: StoreClock
    ) -> None:
        self._clock = clock
        self._exchange = exchange
        self._taken: dict[tuple[bytes, str], Hint] = {}
        self.heard = heard

    async def close(self) -> None:
        """See `ports.DispatchLink`. Hints that were not settled go back into their queues."""
        self._exchange.links.remove(self)
        taken, self._taken = self._taken, {}
        self._exchange.put(list(taken.values()))

    async def announce(self, hints: Sequence[Hint]) -> None:
        """See `ports.DispatchLink`."""
        self._exchange.put(hints)

    async def take(self, queues: Sequence[str], limit: int) -> Sequence[Hint]:
        """See `ports.DispatchLink`."""
        while True:
            found, more, until = self._exchange.take(queues, limit, self._clock.now())
            if found:
                self._taken.update(((hint.run, hint.queue), hint) for hint in found)
                return found
            await self._clock.wait(until, more)

    async def settle(self, hints: Sequence[Hint]) -> None:
        """See `ports.DispatchLink`."""
        for hint in hints:
            self._taken.pop((hint.run, hint.queue), None)

    async def release(self, hints: Sequence[Hint]) -> None:
        """See `ports.DispatchLink`."""
        await self.settle(hints)
        self._exchange.put(hints)

    async def publish(self, news: News) -> None:
        """See `ports.DispatchLink`."""
        for link in tuple(self._exchange.links):
            link.heard(news)
