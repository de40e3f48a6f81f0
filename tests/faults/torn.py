"""Copies of an SQLite database as a power cut may leave it: at an instant, or with a cut WAL."""

import shutil
import sqlite3
import struct
from contextlib import closing
from pathlib import Path

WAL_HEADER, FRAME_HEADER = 32, 24


def copy(path: Path, folder: Path) -> Path:
    """Copy a database, its log and its index as they are now."""
    folder.mkdir(parents=True)
    for part in (path, *(path.with_name(path.name + end) for end in ("-wal", "-shm"))):
        if part.exists():
            shutil.copy(part, folder / part.name)
    return folder / path.name


def cuts(path: Path) -> list[int]:
    """The sizes to which a database's log is cut: each frame's end, one byte less and one more."""
    wal = path.with_name(path.name + "-wal").read_bytes()
    (page,) = struct.unpack(">I", wal[8:12])
    ends = range(WAL_HEADER, len(wal) + 1, FRAME_HEADER + page)
    return sorted({size for end in ends for size in (end - 1, end, end + 1) if size <= len(wal)})


def cut(path: Path, folder: Path, size: int) -> Path:
    """A copy whose log has so many bytes, and which has no index of it."""
    there = copy(path, folder)
    there.with_name(there.name + "-shm").unlink(missing_ok=True)
    wal = there.with_name(there.name + "-wal")
    wal.write_bytes(wal.read_bytes()[:size])
    return there


def sequences(path: Path) -> dict[str, list[tuple[int, str]]]:
    """Thread -> sequence and record of its checkpoints, in order; checks the file first."""
    found: dict[str, list[tuple[int, str]]] = {}
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        if not database.execute("SELECT * FROM sqlite_master").fetchall():
            return found  # cut before the tables were there
        for thread, seq, record in database.execute(
            "SELECT thread_id, seq, record FROM checkpoints JOIN threads USING (thread) "
            "ORDER BY thread_id, seq"
        ):
            found.setdefault(thread, []).append((seq, record))
    return found
