"""Actions of other programs, and people, on the files of an open saver, store or cache."""

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

Action = Callable[[Path, Path], object]
"""Called with the path of the open database or folder, and an older copy of it."""


def _tool(path: Path, statement: str) -> None:
    """Run a statement as another program does."""
    with closing(sqlite3.connect(path, isolation_level=None, timeout=0)) as connection:
        connection.execute(statement).fetchall()


def _replace(path: Path, source: Path) -> None:
    """Put a copy of `source` in the place of a file: another file of the name."""
    new = path.with_name("new")
    shutil.copy(source, new)
    new.replace(path)


def _overwrite(path: Path, data: bytes) -> None:
    """Give a file another content, and leave it the file that it is."""
    with path.open("r+b") as file:
        file.write(data)
        file.truncate()


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _point_elsewhere(path: Path, old: Path) -> None:
    """The folder of `path` is a link: let it lead to another one."""
    elsewhere = path.parent.with_name("elsewhere")
    elsewhere.mkdir()
    (shutil.copytree if old.is_dir() else shutil.copy)(old, elsewhere / path.name)
    path.parent.unlink()
    path.parent.symlink_to(elsewhere)


LOST = "removed or renamed while it was open"
LOG = "the log '.*' of the .* was"
CUT = "was cut or overwritten while it was open"

DATABASE: dict[str, tuple[Action, str]] = {
    "removed": (lambda p, _: p.unlink(), LOST),
    "removed with its log": (lambda p, _: [f.unlink() for f in p.parent.glob(f"{p.name}*")], LOST),
    "renamed": (lambda p, _: p.rename(p.with_name("else.db")), LOST),
    "folder renamed": (lambda p, _: p.parent.resolve().rename(p.parent.with_name("moved")), LOST),
    "link to another folder": (_point_elsewhere, "replaced while it was open"),
    "replaced by an older copy": (_replace, "replaced while it was open"),
    "overwritten by an older copy": (lambda p, old: _overwrite(p, old.read_bytes()), CUT),
    "emptied": (lambda p, _: os.truncate(p, 0), CUT),
    "cut": (lambda p, _: _half(p), CUT),
    "log removed": (lambda p, _: _beside(p, "-wal").unlink(), LOG),
    "index of the log removed": (lambda p, _: _beside(p, "-shm").unlink(), LOG),
    "both removed": (lambda p, _: [_beside(p, s).unlink() for s in ("-wal", "-shm")], LOG),
    "log replaced": (lambda p, _: _replace(_beside(p, "-wal"), _beside(p, "-wal")), LOG),
    "log emptied": (lambda p, _: os.truncate(_beside(p, "-wal"), 0), LOG),
    "log cut": (lambda p, _: _half(_beside(p, "-wal")), LOG),
    "vacuum": (lambda p, _: _tool(p, "VACUUM"), ""),
    "checkpoint": (lambda p, _: _tool(p, "PRAGMA wal_checkpoint(TRUNCATE)"), ""),
    "vacuum and checkpoint": (
        lambda p, _: [_tool(p, s) for s in ("VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)")],
        "",
    ),
    "journal of another kind": (lambda p, _: _refused_journal(p), ""),
    "hard link": (lambda p, _: p.with_name("link.db").hardlink_to(p), ""),
    "touched": (lambda p, _: os.utime(p), ""),
}
"""Action -> the error of the next commit; "" if it harms nothing."""


def _refused_journal(path: Path) -> None:
    try:
        _tool(path, "PRAGMA journal_mode = DELETE")
    except sqlite3.OperationalError:  # SQLite refuses it while the file is open elsewhere
        return
    raise AssertionError


def _file(path: Path) -> Path:
    return path / "acked.jsonl"


def _extended(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"mine")


def _replaced_folder(path: Path, old: Path) -> None:
    path.rename(path.with_name("moved"))
    shutil.copytree(old, path)


def _new_lock(path: Path, _: Path) -> None:
    (path / ".lock").unlink()
    (path / ".lock").write_text("1")


LOCK = "the lock file of the folder .* was"
FOLDER = "the folder .* was removed or renamed while it was open"
REPLACED = r"acked\.jsonl' was replaced"

LINES: dict[str, tuple[Action, str]] = {
    "folder removed": (lambda p, _: shutil.rmtree(p), FOLDER),
    "folder renamed": (lambda p, _: p.rename(p.with_name("moved")), FOLDER),
    "folder replaced": (_replaced_folder, "the folder .* was replaced while it was open"),
    "link to another folder": (_point_elsewhere, "the folder .* was replaced while it was open"),
    "lock removed": (lambda p, _: (p / ".lock").unlink(), LOCK),
    "lock replaced": (_new_lock, LOCK),
    "removed": (lambda p, _: _file(p).unlink(), r"acked\.jsonl' was removed"),
    "renamed": (lambda p, _: _file(p).rename(p / "x.jsonl"), r"acked\.jsonl' was removed"),
    "replaced by an older copy": (lambda p, old: _replace(_file(p), _file(old)), REPLACED),
    "replaced by itself": (lambda p, _: _replace(_file(p), _file(p)), REPLACED),
    "overwritten by an older copy": (
        lambda p, old: _overwrite(_file(p), _file(old).read_bytes()),
        r"acked\.jsonl' was (shortened|cut)",
    ),
    "emptied": (lambda p, _: os.truncate(_file(p), 0), r"acked\.jsonl' was (shortened|cut)"),
    "cut": (lambda p, _: _half(_file(p)), r"acked\.jsonl' was (shortened|cut)"),
    "extended": (lambda p, _: _extended(_file(p)), r"acked\.jsonl' was extended"),
    "marks removed": (lambda p, _: (p / ".marks").unlink(), ""),
    "hard link": (lambda p, _: (p / "link").hardlink_to(_file(p)), ""),
    "touched": (lambda p, _: os.utime(_file(p)), ""),
}
"""As `DATABASE`, for a folder whose thread "acked" is in a file of its own."""
