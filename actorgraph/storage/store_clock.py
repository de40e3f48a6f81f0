"""StoreClock: the time by which runs are due, which all processes over one database agree on.

Files belong to one machine, and its clock is theirs. A server's clock is learned from its answers,
and goes on by this process's monotonic clock in between: neither a machine whose clock is wrong nor
a clock that is set meanwhile begins a run early or late.
"""

import math
import time
from typing import Any, Protocol

import anyio


class Opens(Protocol):
    """A gate, as `runtime/mailbox.py` has it."""

    def open(self) -> None:
        """Release all waiters; from any thread."""
        ...

    async def wait(self) -> None:
        """Wait until it is open."""
        ...


class StoreClock:
    """The clock of a store; the machine's until an answer of a server is learned, or it is set.

    Thread-safe: an answer replaces one number.

    Attributes:
        parked: who waits for a time of this clock -> the time, 0 for none; the gate that wakes it.
        at_work: those who do what a time demanded, or look for their next time.
        systems: the open systems of this process that go by it.
    """

    def __init__(self) -> None:
        self._ahead: int | None = None
        self._set: int | None = None
        self.parked: dict[object, tuple[int, Opens]] = {}
        self.at_work: set[object] = set()
        self.systems: set[object] = set()

    def now(self) -> int:
        """Microseconds since 1970-01-01 UTC."""
        if self._set is not None:
            return self._set
        ahead = self._ahead
        return time.time_ns() // 1000 if ahead is None else sent_now() + ahead

    async def wait(
        self, until: int, sooner: Opens, *, at_most_s: float = math.inf, who: object = None
    ) -> None:
        """Wait for a time of this clock, or for something that happens sooner; may be cancelled.

        Args:
            until: the time, in microseconds since 1970-01-01 UTC; 0 for none.
            sooner: opens when it has happened; `wake` opens it too.
            at_most_s: seconds, of the machine's.
            who: waits, and is in `at_work` until it waits again; the last time it has to leave.
        """
        one = object() if who is None else who
        self.at_work.discard(one)
        self.parked[one] = until, sooner
        try:
            left_s = max(until - self.now(), 0) / 1e6 if until else math.inf
            # The time of a clock that stands comes when it is set to it.
            comes = self._set is None or left_s == 0
            with anyio.move_on_after(min(left_s, at_most_s) if comes else at_most_s):
                await sooner.wait()
        finally:
            self.parked.pop(one, None)
            (self.at_work.discard if who is None else self.at_work.add)(one)

    def set(self, at: int | None) -> None:
        """Let the clock stand at a time, and wake all who wait for a time that has come.

        Args:
            at: microseconds since 1970-01-01 UTC; None lets it go again.
        """
        self._set = at
        self.wake(at)

    def wake(self, due: int | None = None) -> None:
        """Wake those who wait; they look again at what time it is.

        Args:
            due: only those whose time is not later, in microseconds since 1970-01-01 UTC.
        """
        for who, (until, sooner) in tuple(self.parked.items()):
            if due is None or 0 < until <= due:
                self.at_work.add(who)
                sooner.open()

    def learn(self, answer: int, sent: int) -> None:
        """Follow the server's clock.

        Args:
            answer: the server's time while it worked on a statement, as `now`.
            sent: `sent_now()` before the statement was sent.
        """
        self._ahead = within_answer(self._ahead, answer, sent, sent_now())


def sent_now() -> int:
    """Microseconds of the monotonic clock, which is never set."""
    return time.monotonic_ns() // 1000


def within_answer(ahead: int | None, answer: int, sent: int, received: int) -> int:
    """Return by how much a server's clock is ahead of the monotonic one, after an answer.

    The answer was made at some moment between `sent` and `received`, which bounds the difference.
    A known difference stays if it lies within the bounds: a slow answer must not make it worse.

    Args:
        ahead: as known before; None if nothing is.
        answer, sent, received: microseconds.
    """
    least, most = answer - received, answer - sent
    return (least + most) // 2 if ahead is None else min(max(ahead, least), most)


def clock_of(saver: Any) -> StoreClock:
    """The clock of a saver's store; the machine's clock if the saver has no other."""
    clock = getattr(saver, "store_clock", None)
    return clock if isinstance(clock, StoreClock) else StoreClock()
