"""Times at which things are due, in memory: those that are due are found without the others."""

import heapq
from datetime import datetime


class DueTimes:
    """Key -> the time at which it is due."""

    def __init__(self) -> None:
        self._times: dict[str, datetime] = {}
        self._heap: list[tuple[datetime, str]] = []

    def set(self, key: str, at: datetime) -> None:
        """Let a key be due at a time, and not at an earlier or later one."""
        if self._times.get(key) != at:
            self._times[key] = at
            heapq.heappush(self._heap, (at, key))

    def drop(self, key: str) -> None:
        """Let a key never be due."""
        self._times.pop(key, None)

    def due(self, now: datetime) -> list[str]:
        """Return the keys whose time has come, the earliest first; they stay due."""
        found: dict[str, datetime] = {}
        while self._heap and self._heap[0][0] <= now:
            at, key = heapq.heappop(self._heap)
            if self._times.get(key) == at:  # else it was set to another time, or dropped
                found[key] = at
        for key, at in found.items():
            heapq.heappush(self._heap, (at, key))
        return list(found)
