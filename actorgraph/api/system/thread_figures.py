"""Figures of the threads of a system's saver: open questions and their age, parked, cut off.

Receives   nothing; counts every `COUNT_S` seconds, once its figures have been asked for: a system
           whose metrics are not read counts nothing
Reads      the saver's index of threads, and the parked runs
Ends       when the system's task group is cancelled
"""

import time
from collections.abc import Callable

import anyio
import msgspec

from actorgraph.api.system.thread_finder import ThreadFinder, thread_query
from actorgraph.errors import ActorGraphError
from actorgraph.runtime.clock import microseconds_now
from actorgraph.runtime.log import event as log_event
from actorgraph.runtime.saver.hosting import Host
from actorgraph.runtime.saver.thread_runs import parked_rows
from actorgraph.values.thread_phase import ThreadPhase

COUNT_S = 15.0
"""Seconds between two counts."""
ASKED_S = 600.0
"""Seconds after the last question for the figures for which they are counted."""
LOOK_S = 1.0
WAIT_S = 2.0
"""Seconds that a reader of the figures waits for a count at most: a saver may be away."""


class ThreadFigures(msgspec.Struct, frozen=True):
    """Figures of the threads of a saver.

    Attributes:
        waiting: threads with a question that waits for a person; None over a saver without an
            index of threads.
        oldest_s: seconds since the oldest of them made its newest checkpoint; 0 without any.
        cut_off: threads that were cut off; None as above.
        unfinished: threads that are unfinished; None as above.
        parked: runs that are parked.
        sleeping: threads whose open questions are all sleeps; None as above.
    """

    waiting: int | None = None
    oldest_s: float = 0.0
    cut_off: int | None = None
    unfinished: int | None = None
    parked: int = 0
    sleeping: int | None = None


class ThreadCounter:
    """Counts threads; see the module's docstring.

    Args:
        finder: of the system.
        host: returns the saver's host, while the system is open.
        keeps: whether the saver keeps runs.
    """

    def __init__(self, finder: ThreadFinder, host: Callable[[], Host], *, keeps: bool) -> None:
        self._finder = finder
        self._host = host
        self._keeps = keeps
        self._asked_at = self._counted_at = float("-inf")
        self._known: ThreadFigures | None = None

    def known(self) -> ThreadFigures | None:
        """Return the figures, at most `COUNT_S` old; None before the first count."""
        self._asked_at = time.monotonic()
        return self._known

    async def look(self) -> ThreadFigures | None:
        """Count now, unless the figures are new enough."""
        self._asked_at = time.monotonic()
        with anyio.move_on_after(WAIT_S) as scope:
            await self._count()
        if scope.cancelled_caught:
            self._known = None
        return self._known

    async def serve(self) -> None:
        """Count until cancelled, while the figures are asked for."""
        while True:
            await anyio.sleep(LOOK_S)
            if time.monotonic() - self._asked_at < ASKED_S:
                await self._count()

    async def _count(self) -> None:
        if time.monotonic() - self._counted_at < COUNT_S:
            return
        self._counted_at = time.monotonic()
        try:
            parked = len(await parked_rows(self._host())) if self._keeps else 0
            if not self._finder.is_kept:
                self._known = ThreadFigures(parked=parked)
                return
            query = thread_query(
                phase="waiting", sort_by="state_updated_at", descending=False, limit=1
            )
            oldest = [row.state_updated for row in await self._finder.find(query)]
            self._known = ThreadFigures(
                await self._number("waiting"),
                max(0.0, (microseconds_now() - oldest[0]) / 1e6) if oldest else 0.0,
                await self._number("cut_off"),
                await self._number("unfinished"),
                parked,
                await self._number("sleeping"),
            )
        except ActorGraphError as error:  # old figures would look like good ones
            self._known = None
            log_event("warning", "threads.not_counted", error=repr(error))

    async def _number(self, phase: ThreadPhase) -> int:
        return await self._finder.count(thread_query(phase=phase))
