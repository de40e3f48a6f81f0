"""Lent slots: a run that waits for another run of its system lends it its slot.

Without that, runs that have all slots and wait for runs behind them would wait for ever. A run that
goes on has its slot again at once: so there may be more active runs than `max_runs` for a moment,
by those that have waited.
"""

import threading
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

from actorgraph.runtime.mailbox import Gate, Mailbox


class _Holder(Protocol):
    """The part of a job that says whether it has a slot."""

    id: bytes
    begun: bool
    done: Gate


class LentSlots:
    """The slots that runs of one system lend.

    Args:
        fill: called when one is lent, to begin a run that waits for a slot.

    Attributes:
        on_lent: functions to call when one is lent.
    """

    def __init__(self, fill: Callable[[], None]) -> None:
        self._waits: Counter[bytes] = Counter()  # run -> places in it that wait
        self._thread = 0
        self._elsewhere: Mailbox[tuple[Callable[[_Holder], None], _Holder]] = Mailbox()
        self.on_lent: list[Callable[[], None]] = [fill]

    def __len__(self) -> int:
        return len(self._waits)

    def __contains__(self, run: object) -> bool:
        return run in self._waits

    def enter(self, job: _Holder) -> None:
        """Note, in the context of a run, that it has a slot here; called in the system's thread."""
        self._thread = threading.get_ident()
        _SLOT.set((self, job))

    def lend(self, job: _Holder) -> bool:
        """Lend the slot of a run. Returns whether it has one; called in any thread."""
        if not job.begun or job.done.is_open:
            return False
        self._here(self._lend, job)
        return True

    def _here(self, change: Callable[[_Holder], None], job: _Holder) -> None:
        """Make a change in the system's thread: a blocking node may wait in a loop of its own."""
        if threading.get_ident() == self._thread:
            change(job)
        else:
            self._elsewhere.put((change, job))

    async def serve(self) -> None:
        """Make the changes of other threads, until cancelled."""
        while True:
            change, job = await self._elsewhere.get()
            change(job)

    def _lend(self, job: _Holder) -> None:
        if job.done.is_open:  # it has left meanwhile
            return
        self._waits[job.id] += 1
        if self._waits[job.id] == 1:
            for notify in self.on_lent:
                notify()

    def take_back(self, job: _Holder) -> None:
        """Take the slot back after a wait; not of a run that has left meanwhile."""
        self._here(self._take_back, job)

    def _take_back(self, job: _Holder) -> None:
        if job.id in self._waits:
            self._waits[job.id] -= 1
            if not self._waits[job.id]:
                del self._waits[job.id]

    def forget(self, job: _Holder) -> None:
        """Forget a run that has left its slot."""
        self._waits.pop(job.id, None)


_SLOT: ContextVar[tuple[LentSlots, _Holder] | None] = ContextVar("actorgraph_slot", default=None)


@contextmanager
def slot_lent() -> Generator[None]:
    """Lend the slot of the run in whose node this code runs, if any, until the block ends."""
    found = _SLOT.get()
    if found is None or not found[0].lend(found[1]):
        yield
        return
    slots, job = found
    try:
        yield
    finally:
        slots.take_back(job)
