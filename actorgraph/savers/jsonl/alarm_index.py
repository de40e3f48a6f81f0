"""Alarms of a folder's threads in memory: searched for in all files once, then kept up by saves.

A thread's alarm is what the last line says that has one. To search for them reads the bytes of each
file, and decodes only files with such a line.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable
from pathlib import Path

from actorgraph.values.alarms import Alarm, AlarmRow

_CHUNK = 1 << 20
_MARK = b'"alarm":{"at":'
"""What each line with an alarm has; values may have it too."""


class AlarmIndex:
    """Alarms by graph and time.

    Attributes:
        unread: path of a file that can't be read -> its error; alarms in it are not known.
    """

    def __init__(self) -> None:
        self.unread: dict[str, Exception] = {}
        self._known: dict[str, Alarm] = {}
        self._ordered: dict[str, list[tuple[int, str]]] = {}

    def put(self, thread_id: str, alarm: Alarm | None) -> None:
        """Set a thread's alarm; None takes it away."""
        known = self._known.pop(thread_id, None)
        if known is not None:
            times = self._ordered[known.graph]
            del times[bisect_left(times, (known.at, thread_id))]
            if not times:
                del self._ordered[known.graph]
        if alarm is not None:
            self._known[thread_id] = alarm
            insort(self._ordered.setdefault(alarm.graph, []), (alarm.at, thread_id))

    def first(self, graphs: Iterable[str], limit: int) -> list[AlarmRow]:
        """Return the alarms of these graphs that come first, in order of time and thread id."""
        rows = [
            AlarmRow(thread_id, at, graph)
            for graph in set(graphs)
            for at, thread_id in self._ordered.get(graph, ())[:limit]
        ]
        return sorted(rows, key=lambda row: (row.at, row.thread_id))[:limit]


def may_have_alarm(path: Path) -> bool:
    """Whether a file has a line with an alarm, or a value that looks like one.

    Raises:
        OSError: it can't be read.
    """
    end = b""
    with path.open("rb", buffering=0) as file:
        while chunk := file.read(_CHUNK):
            read = end + chunk
            if _MARK in read:
                return True
            end = read[-len(_MARK) :]
    return False
