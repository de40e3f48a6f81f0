"""Space in a database's write-ahead log, made before the commits that need it.

A commit that makes a file longer is slower to sync than one that overwrites bytes: the file
system writes the new length to its own journal, and waits for that too. SQLite overwrites its log
once it has been checkpointed, but a new log grows with each commit until then. So a saver
makes the log longer by many commits at once, with zeros, which SQLite takes for the end of
the log: a frame's page is never 0.

Bounds     the log is doubled, at most to `LOG_BYTES_MAX`: about where SQLite checkpoints it. A
           program that stores little writes little
Order      only inside of a write transaction, before its first statement: then no process appends
Ends       at the bound or at an error, such as a full disk: the log grows as SQLite makes it grow
"""

import os
from contextlib import suppress

STEP_BYTES_MIN = 256 * 1024
LOG_BYTES_MAX = 4_400_000
"""SQLite checkpoints a log of 1,000 pages, here of 4,096 bytes and a header of 24 each."""


class LogSpace:
    """The space in the log of one open database.

    Args:
        path: the database's, open in WAL mode.
    """

    def __init__(self, path: str) -> None:
        self._made = -1
        self._file: int | None = None
        # SQLite names the log after the file that a link leads to. This descriptor stays with that
        # log: one that is made later under its name may be another process's.
        if os.name == "nt":
            return  # Windows writes at a position in no single call
        with suppress(OSError):
            self._file = os.open(f"{os.path.realpath(path)}-wal", os.O_WRONLY)

    def __del__(self) -> None:
        self.close()

    def make(self) -> None:
        """Make the log longer if SQLite has used all of it; never fails."""
        if self._file is None:
            return
        try:
            length = os.fstat(self._file).st_size
            if length <= self._made:
                return
            more = min(max(length, STEP_BYTES_MIN), LOG_BYTES_MAX - length)
            if more > 0:
                # Not synced here: the sync of the commit that follows includes it.
                self._made = length + os.pwrite(self._file, bytes(more), length)
            else:
                self.close()
        except OSError:
            self.close()

    def close(self) -> None:
        """Close the file; the log keeps its length."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)
