"""StoreClock: the time by which runs are due, which all processes over one database agree on.

Files belong to one machine, and its clock is theirs. A server's clock is learned from its answers,
and goes on by this process's monotonic clock in between: neither a machine whose clock is wrong nor
a clock that is set meanwhile begins a run early or late.
"""

import time
from collections.abc import Awaitable, Callable
from typing import Any

import anyio


class StoreClock:
    """The clock of a store; the machine's until an answer of a server is learned.

    Thread-safe: an answer replaces one number.
    """

    def __init__(self) -> None:
        self._ahead: int | None = None

    def now(self) -> int:
        """Microseconds since 1970-01-01 UTC."""
        ahead = self._ahead
        return time.time_ns() // 1000 if ahead is None else sent_now() + ahead

    async def wait(self, pause_s: float, sooner: Callable[[], Awaitable[None]]) -> None:
        """Wait until some time has passed by this clock, or something has happened.

        Args:
            pause_s: seconds, at most.
            sooner: returns when it has happened; may be cancelled.
        """
        with anyio.move_on_after(pause_s):
            await sooner()

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
