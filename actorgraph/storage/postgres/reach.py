"""Reach: since when a server of PostgreSQL can't be reached."""

import time
from collections.abc import Generator
from contextlib import contextmanager

import psycopg

from actorgraph.storage.postgres.parameters import CONNECT_TIMEOUT_S
from actorgraph.storage.postgres.translate import ErrorKind, classify_error

STALE_S = CONNECT_TIMEOUT_S + 1.0
"""Seconds after which a failure says nothing any more. Longer than a pause and a retry."""


class Reach:
    """Notes of the connections of one saver or store about their server; safe for threads."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._failed_at = 0.0

    @property
    def away_s(self) -> float:
        """Seconds since a connection was lost, with no success after it; 0 if it can be reached.

        Also 0 if nothing has tried to reach it for a while: it may have come back.
        """
        since, now = self._since, time.monotonic()
        return 0.0 if since is None or now - self._failed_at > STALE_S else now - since

    def found(self) -> None:
        """Note that the server has answered."""
        self._since = None

    @contextmanager
    def tried(self) -> Generator[None]:
        """Learn from the end of a block that connects to the server, or asks it."""
        try:
            yield
        except psycopg.Error as error:
            if classify_error(error) is ErrorKind.LOST:
                self._failed_at = time.monotonic()
                self._since = self._since or self._failed_at
            raise
        self.found()
