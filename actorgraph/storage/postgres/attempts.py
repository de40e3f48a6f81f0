"""Attempts: how often work that failed for reasons of the moment is tried again, and how long."""

import random
import time

from actorgraph.storage.postgres.failures import ErrorKind

_FIRST_PAUSE_S = 0.01
_PAUSE_MAX_S = 0.5


class Attempts:
    """The attempts at one piece of work.

    Args:
        renews: whether a lost connection is followed by another one.
        reconnect_timeout_s: for how long, counted from the first failure, there are more.
        attempts_max: how many there are for what the server rolls back.
    """

    def __init__(self, *, renews: bool, reconnect_timeout_s: float, attempts_max: int) -> None:
        self._renews = renews
        self._timeout_s = reconnect_timeout_s
        self._attempts_max = attempts_max
        self._failed = 0
        self._end = 0.0

    def again(self, kind: ErrorKind, *, unsure: bool = False) -> bool:
        """Whether to try again after a failure.

        Args:
            unsure: whether only another attempt can find out what became of this one.
        """
        self._failed += 1
        now = time.monotonic()
        self._end = self._end or now + self._timeout_s
        if kind is ErrorKind.LOST or unsure:
            return self._renews and now < self._end
        return kind is ErrorKind.AGAIN and self._failed < self._attempts_max and now < self._end

    def pause(self) -> None:
        """Wait, in a worker thread: growing, and not the same for all who were disturbed."""
        longest = min(_PAUSE_MAX_S, _FIRST_PAUSE_S * 2**self._failed)
        time.sleep(longest * random.uniform(0.5, 1.0))  # noqa: S311 - spreads load, hides nothing
