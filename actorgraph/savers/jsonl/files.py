"""What is done to files: each way to change one is a method here, so that a test can let it fail.

Source: a file's name is durable once its folder is synced, and after a failed fsync nobody
knows what is on the disk (Rebello et al., "Can Applications Recover from fsync Failures?", USENIX
ATC 2020).
"""

import errno
import os
from pathlib import Path

from actorgraph.errors import SaverBrokenError, StorageError, StorageFullError

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_WRITING = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
_sync = getattr(os, "fdatasync", os.fsync)


class Files:
    """The file system. A test's subclass may fail on purpose."""

    def create(self, path: str) -> int:
        """A descriptor of a file, made with mode 0600 if it isn't there."""
        return os.open(path, _WRITING, 0o600)

    def write(self, descriptor: int, data: bytes, offset: int) -> None:
        """Write all of the data."""
        view = memoryview(data)
        while view:
            count = os.pwrite(descriptor, view, offset)
            view, offset = view[count:], offset + count

    def truncate(self, descriptor: int, size: int) -> None:
        """Cut the file."""
        os.ftruncate(descriptor, size)

    def sync(self, descriptor: int) -> None:
        """Return when the file's bytes are on the disk."""
        _sync(descriptor)

    def sync_folder(self, path: str) -> None:
        """Return when the names in a folder are on the disk."""
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def rename(self, source: str, target: str) -> None:
        """Give a file another file's name, at once."""
        Path(source).replace(target)

    def remove(self, path: str) -> None:
        """Remove a file."""
        Path(path).unlink()


def translate(error: OSError, what: str) -> StorageError:
    """The error that callers see when nothing was stored.

    Args:
        what: the file, or the folder.
    """
    if error.errno in _FULL:
        return StorageFullError(
            f"no space is left to write {what!r}: {error}",
            do="free some space and run again; the saver stays usable",
        )
    return StorageError(
        f"{what!r} can't be written: {error}",
        do="check the path, its permissions and the limits of the process; nothing of this save "
        "was stored",
    )


def broken(error: OSError, what: str) -> SaverBrokenError:
    """The error of a failure that leaves open what is on the disk."""
    return SaverBrokenError(
        f"the disk failed while {what!r} was stored, so the last commit's outcome is unknown: "
        f"{error}",
        do="check the disk, then close and open the saver again; it verifies the files",
    )
