"""Record the files that this process parsed; and, for a checker, a file that outlives the process.

Receives   the start and the end of each parse, from worker threads; and an acknowledgement
           once the saver promised that a file need never be parsed again
Sends      lines "start PACKAGE:FILE", "done ...", "ack ...", each with one write(2) in append mode:
           a `kill -9` loses no line that was written, and no two lines ever mix
Invariant  "ack" is written only for durable parses. So "start" after "ack" is a fault.
"""

import os
import threading
from pathlib import Path
from typing import Self


class Ledger:
    """Counts parsed files, and writes them down when a path is given.

    Args:
        path: the file that a checker reads; None writes nothing.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._lock = threading.Lock()
        self._parsed = set[tuple[str, str]]()
        self._file: int | None = None
        if path is not None:
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    @property
    def parsed(self) -> int:
        """The number of files that this process has parsed."""
        return len(self._parsed)

    def start(self, package: str, file: str) -> None:
        """A parse begins."""
        self._write("start", package, file)

    def done(self, package: str, file: str) -> None:
        """A parse has ended; its result may still be lost."""
        with self._lock:
            self._parsed.add((package, file))
        self._write("done", package, file)

    def acknowledge(self, package: str, file: str) -> None:
        """The result is durable."""
        self._write("ack", package, file)

    def _write(self, what: str, package: str, file: str) -> None:
        # A cancelled task's thread may still end after the ledger is closed.
        if (descriptor := self._file) is not None:
            os.write(descriptor, f"{what} {package}:{file}\n".encode())
