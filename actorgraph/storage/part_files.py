"""A new file or folder is filled beside its place, as `.part`, and renamed when it is on the disk.

So an interrupted one can't be mistaken for a whole one. The part is locked while it is filled: two
processes don't fill the same one, and one that a dead process has left is emptied and filled again.
"""

import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from actorgraph.errors import InvalidConfigError, StorageBusyError
from actorgraph.storage.file_locks import try_lock


@contextmanager
def locked_part(dest: str, *, folder: bool = False, mode: int = 0o600) -> Generator[Path]:
    """Yield the path of an empty part, which the caller fills, syncs, and renames to `dest`.

    After an error the part is removed.

    Args:
        folder: whether the part is a folder, of mode 0700.
        mode: of the file.
    Raises:
        InvalidConfigError: `dest` exists.
        StorageBusyError: something else fills the part.
        OSError: the part can't be made.
    """
    part = Path(f"{dest}.part")
    descriptor = _locked(part, dest, folder, mode)
    try:
        if os.path.lexists(dest):
            raise InvalidConfigError(
                f"{dest!r} exists already", do="name a path that doesn't exist"
            )
        _empty(part, descriptor, folder)
        yield part
    except BaseException:
        _remove(part)
        raise
    finally:
        os.close(descriptor)


def _locked(part: Path, dest: str, folder: bool, mode: int) -> int:
    """Open and lock a part, which is made if it is missing."""
    while True:
        if folder:
            part.mkdir(mode=0o700, exist_ok=True)
            descriptor = os.open(part, os.O_RDONLY)
        else:
            descriptor = os.open(part, os.O_RDWR | os.O_CREAT, mode)
        try:
            _lock(descriptor, dest)
            with suppress(FileNotFoundError):  # else its filler has just renamed or removed it
                if os.path.samestat(os.fstat(descriptor), part.stat()):
                    return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _lock(descriptor: int, dest: str) -> None:
    """Lock the part against other fillers."""
    if not try_lock(descriptor):
        raise StorageBusyError(
            f"{dest!r} is being written by something else",
            do="wait until it is made, or name another path",
        )


def _empty(part: Path, descriptor: int, folder: bool) -> None:
    if not folder:
        os.ftruncate(descriptor, 0)
        Path(f"{part}-journal").unlink(missing_ok=True)  # of a database that was being filled
        return
    for left in part.iterdir():
        shutil.rmtree(left) if left.is_dir() else left.unlink()


def _remove(part: Path) -> None:
    if part.is_dir():
        shutil.rmtree(part, ignore_errors=True)
        return
    for left in (part, Path(f"{part}-journal")):
        with suppress(OSError):
            left.unlink()


def sync_path(path: Path) -> None:
    """Wait until a file's bytes, or the names in a folder, are on the disk.

    Does nothing for a folder on Windows.
    """
    if os.name == "nt" and path.is_dir():
        return
    descriptor = os.open(path, os.O_RDONLY if os.name != "nt" else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def finish(part: Path, dest: str) -> None:
    """Give a part that is written its name; both are on the disk afterwards."""
    sync_path(part)
    part.replace(dest)
    sync_path(Path(dest).absolute().parent)
