"""Limit retries of work that failed for a transient reason, in number and in time."""

import random
import time

from actorgraph.storage.postgres.failures import ErrorKind

_FIRST_PAUSE_S = 0.01
_PAUSE_MAX_S = 0.5


class Attempts:
    """Counts the attempts at one piece of work and decides about the next one.

    Args:
        renews: whether the source replaces a lost connection.
        reconnect_timeout_s: no new attempt starts so long after the first failure.
        attempts_max: limit of attempts after errors that the server answered by a rollback.
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
            kind: of the failure.
            unsure: whether the result of a COMMIT is unknown: only another attempt can find out.
        """
        self._failed += 1
        now = time.monotonic()
        self._end = self._end or now + self._timeout_s
        if kind is ErrorKind.LOST or unsure:
            return self._renews and now < self._end
        return kind is ErrorKind.AGAIN and self._failed < self._attempts_max and now < self._end

    def pause(self) -> None:
        """Sleep, blocking; longer each time, with jitter so that clients don't retry at once."""
        longest = min(_PAUSE_MAX_S, _FIRST_PAUSE_S * 2**self._failed)
        time.sleep(longest * random.uniform(0.5, 1.0))  # noqa: S311 - spreads load, hides nothing
