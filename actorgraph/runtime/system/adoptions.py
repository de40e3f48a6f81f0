"""Adoptions: the runs of dead systems, and of later times, that a system is taking up.

Such a run may be the system's in the store, while it isn't in its lane yet: the thread is read
first. The store doesn't compare runs of one system, because each orders its own by its lanes; so
until the run is in its lane, nothing else may begin on its thread that comes after it.
"""

from collections import Counter
from collections.abc import Iterable

from actorgraph.rules.run_order import place_in_thread
from actorgraph.runtime.mailbox import Waiting, wait_for_wake_up, wake_all
from actorgraph.values.systems import RunRow


class Adoptions:
    """Runs that a system may own in the store, and that may not be among its runs yet."""

    def __init__(self) -> None:
        self._rows: dict[bytes, RunRow] = {}
        self._count: Counter[bytes] = Counter()
        self._waiting: Waiting = []

    def __contains__(self, run: object) -> bool:
        return run in self._rows

    def add(self, rows: Iterable[RunRow]) -> None:
        """Note runs before they are adopted; each is dropped as often as it was added."""
        for row in rows:
            self._rows[row.run] = row
            self._count[row.run] += 1

    def drop(self, rows: Iterable[RunRow]) -> None:
        """Forget runs: they are in their lanes, or were ended, parked or given back."""
        for row in rows:
            self._count[row.run] -= 1
            if not self._count[row.run]:
                del self._count[row.run], self._rows[row.run]
        wake_all(self._waiting)

    def on_thread(self, thread_id: str) -> list[RunRow]:
        """The runs of a thread that are being taken up."""
        if not self._rows:
            return []
        return [row for row in self._rows.values() if row.thread_id == thread_id]

    def ahead_of(self, job_row: RunRow) -> list[RunRow]:
        """The runs of a run's thread that are being taken up and come before it."""
        if not self._rows:
            return []
        place = place_in_thread(job_row)
        return [row for row in self.on_thread(job_row.thread_id) if place_in_thread(row) < place]

    async def wait_until_none(self, thread_id: str) -> None:
        """Wait until no run of a thread is being taken up; callers go on in their order."""
        while self.on_thread(thread_id):
            await wait_for_wake_up(self._waiting, lambda: not self.on_thread(thread_id))
