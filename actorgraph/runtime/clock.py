"""Checkpoint and run ids from the clock: strictly increasing, above every parent's id."""

import secrets
import threading
import time

import uuid_utils

from actorgraph.ports import Clock
from actorgraph.values.ids import GREGORIAN_OFFSET, CheckpointId, RunId, ticks_of, uuid6


class SystemClock:
    """The computer's clock."""

    def ticks(self) -> int:
        """See `ports.Clock.ticks`."""
        return time.time_ns() // 100 + GREGORIAN_OFFSET


def microseconds_now() -> int:
    """Microseconds since 1970-01-01 UTC: the unit of times in the rows of runs."""
    return time.time_ns() // 1000


class IdSource:
    """Makes checkpoint and run ids; thread-safe.

    A checkpoint's id is above every id made before in this process and above its parent's,
    even if the clock stops or goes back.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._ticks = None if clock is None else clock.ticks
        self._last = 0
        # The multicast bit marks a random node id, not a network card's (RFC 9562, 6.10).
        self._node = secrets.randbits(48) | (1 << 40)
        self._node_bytes = self._node.to_bytes(6, "big")
        self._lock = threading.Lock()

    def checkpoint(self, step: int, parent: bytes | None) -> CheckpointId:
        """Make the id of a new checkpoint."""
        # The computer's clock is read here: one call less for every checkpoint.
        ticks = self._ticks
        now = time.time_ns() // 100 + GREGORIAN_OFFSET if ticks is None else ticks()
        with self._lock:
            floor = self._last
            if parent is not None and not parent.endswith(self._node_bytes):
                # Another process made it, maybe with a clock ahead of ours.
                floor = max(floor, ticks_of(parent))
            self._last = last = now if now > floor else floor + 1
        return uuid6(last, step, self._node)

    def microseconds(self) -> int:
        """The time now, in microseconds since 1970-01-01 UTC, as retention compares with ids."""
        return (self._clock.ticks() - GREGORIAN_OFFSET) // 10

    @staticmethod
    def run() -> RunId:
        """Make the id of a new run: a UUIDv7."""
        return RunId(uuid_utils.uuid7().bytes)


IDS = IdSource()
"""The process's only source: ids must increase across graphs and savers."""
