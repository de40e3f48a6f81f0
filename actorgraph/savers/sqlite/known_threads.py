"""Threads whose state a connection knows from its own last commits, and need not read again.

Valid      while no other connection has written to the file. `PRAGMA data_version` says so; it is
           asked under the write lock, so none can write between the question and the commit
Kept       threads with an active run, at most `THREADS_MAX`: those that have more saves to come
Ends       with anything that isn't a commit which succeeded: then the next batch reads its threads
"""

import sqlite3
from collections.abc import Mapping

from actorgraph.savers.judge import ThreadState

States = dict[str, ThreadState]
THREADS_MAX = 4096
HEADS_MAX = 64
"""Of one thread: runs with many subgraphs have a head for each."""


class KnownThreads:
    """The known threads of one connection."""

    def __init__(self) -> None:
        self._version: int | None = None
        self._states: States = {}

    def take(self, connection: sqlite3.Connection) -> States:
        """Return the threads that are still valid; this knows nothing until `keep` is called.

        Args:
            connection: always the same one, inside a write transaction.
        """
        (version,) = connection.execute("PRAGMA data_version").fetchone()
        states, self._states = self._states, {}
        if version != self._version:
            self._version = version
            return {}
        return states

    def keep(self, states: States, changed: Mapping[str, ThreadState]) -> None:
        """Know threads after a commit.

        Args:
            states: those of `take`.
            changed: the threads of the batch as they are stored now.
        """
        for thread_id, state in changed.items():
            if state.run is not None and len(state.heads) <= HEADS_MAX:
                states[thread_id] = state
            else:
                states.pop(thread_id, None)
        if len(states) <= THREADS_MAX:
            self._states = states
