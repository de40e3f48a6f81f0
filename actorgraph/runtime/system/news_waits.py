"""NewsWaits: the waits of a system's readers and callers for news of runs in other processes.

Receives   the runs that have news; waits, from any thread
Wakes      those whose runs have news, at most once per `WAKE_S`: they look in one transaction
Looks      news may be lost, so a wait ends without them too, when `looks_after` says. One task ends
           such waits, `LOOK_TOGETHER_S` apart: so they share transactions, and a wait needs no
           timer, which would cost more than all else of it. They are as frequent as at first while
           news don't come at all, and while the system drains
Ends       with the system: waits that are left, and later ones, end soon
"""

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

import anyio

from actorgraph.rules.system.dispatching import looks_after
from actorgraph.runtime.mailbox import Gate

WAKE_S = 0.025
"""Shortest time between two wake-ups of readers: those with news look in one transaction."""
LOOK_TOGETHER_S = 0.25
"""Time between two ends of waits without news."""
RECENT_MAX = 10_000
"""Runs whose last news are remembered, for readers that are just looking into the saver."""

K = TypeVar("K")


class _Wait:
    """One wait: when it began, and after how many seconds without news it ends."""

    __slots__ = ("begun", "gate", "limit_s")

    def __init__(self, begun: float, limit_s: float) -> None:
        self.begun, self.limit_s = begun, limit_s
        self.gate = Gate()


class NewsWaits:
    """Lets readers of runs wait for news; see the module's docstring.

    Args:
        are_hurried: whether waits are to end as soon as those of runs that have just had news.
    """

    def __init__(self, are_hurried: Callable[[], bool]) -> None:
        self._are_hurried = are_hurried
        self._lock = threading.Lock()
        self._waits: dict[bytes, set[_Wait]] = {}
        self._some_waits = Gate()
        self._noted: dict[bytes, None] = {}
        self._some_noted = Gate()
        self._recent: OrderedDict[bytes, float] = OrderedDict()
        self._ended = False

    def note(self, runs: Iterable[bytes]) -> None:
        """Wake soon those who wait for one of these runs."""
        self._noted.update(dict.fromkeys(runs))
        self._some_noted.open()

    def pause_of(self, run: bytes, since: float) -> Callable[[], Awaitable[None]]:
        """Make a function that waits, between two looks at a run, until the run has news.

        It returns at once if there was news since it has last returned, and without news after a
        while: they may be lost.

        Args:
            since: at first, in seconds of `time.monotonic()`.
        """
        quiet = 0

        async def pause() -> None:
            nonlocal since, quiet
            wait = _Wait(time.monotonic(), looks_after(quiet))
            self._join(run, wait)
            try:
                if self._ended:
                    await anyio.sleep(LOOK_TOGETHER_S)
                elif not self._has_news(run, since):
                    await wait.gate.wait()
            finally:
                self._leave(run, wait)
                quiet = 0 if self._has_news(run, since) else quiet + 1
                since = time.monotonic()

        return pause

    def _has_news(self, run: bytes, since: float) -> bool:
        return self._recent.get(run, 0.0) >= since

    def _join(self, run: bytes, wait: _Wait) -> None:
        with self._lock:
            self._waits.setdefault(run, set()).add(wait)
        self._some_waits.open()

    def _leave(self, run: bytes, wait: _Wait) -> None:
        with self._lock:
            waits = self._waits[run]
            waits.discard(wait)
            if not waits:
                del self._waits[run]

    async def wake_readers(self) -> None:
        """Wake those whose runs have news, until cancelled."""
        while True:
            self._some_noted = gate = Gate()
            if not self._noted:
                await gate.wait()
            for run in taken(self._noted):
                self._wake(run)
            await anyio.sleep(WAKE_S)

    def _wake(self, run: bytes) -> None:
        """Wake the readers of a run, and those that are about to wait."""
        self._recent[run] = time.monotonic()
        self._recent.move_to_end(run)
        if len(self._recent) > RECENT_MAX:
            self._recent.popitem(last=False)
        with self._lock:
            waits = tuple(self._waits.get(run, ()))
        for wait in waits:
            wait.gate.open()

    async def end_long_waits(self) -> None:
        """End the waits that have had no news for long, until cancelled."""
        while True:
            self._some_waits = gate = Gate()
            if not self._waits:
                await gate.wait()
            await anyio.sleep(LOOK_TOGETHER_S)
            self.end_due(time.monotonic())

    def end_due(self, now: float) -> None:
        """End the waits that have had no news for long at a time, in seconds of `monotonic`."""
        longest_s = looks_after(0) if self._are_hurried() else math.inf
        for wait in self._all():
            if now - wait.begun >= min(wait.limit_s, longest_s):
                wait.gate.open()

    def _all(self) -> list[_Wait]:
        with self._lock:
            return [wait for waits in self._waits.values() for wait in waits]

    def end(self) -> None:
        """End all waits: nothing wakes them any more."""
        self._ended = True
        for wait in self._all():
            wait.gate.open()


def taken(keys: dict[K, None]) -> tuple[K, ...]:
    """Take the keys out of a dict to which other threads add."""
    taken_keys = tuple(keys)
    for key in taken_keys:
        keys.pop(key, None)
    return taken_keys
