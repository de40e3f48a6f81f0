"""File operations, names of threads' files, and marks of acknowledged sizes.

Every operation that changes a file is a method of `Files`, so that tests can inject failures. A
file's name is durable once its folder is synced. After a failed fsync the disk's content is unknown
(Rebello et al., "Can Applications Recover from fsync Failures?", USENIX ATC 2020).
"""

import errno
import os
from pathlib import Path

from actorgraph.errors import SaverBrokenError, StorageError, StorageFullError

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_WRITING = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
_sync = getattr(os, "fdatasync", os.fsync)


class Files:
    """Operations of the file system; tests replace them to inject failures."""

    def create(self, path: str) -> int:
        """Open a file for reading and writing; create it with mode 0600 if missing."""
        return os.open(path, _WRITING, 0o600)

    def write(self, descriptor: int, data: bytes, offset: int) -> None:
        """Write all of the data at an offset in bytes."""
        view = memoryview(data)
        while view:
            count = os.pwrite(descriptor, view, offset)
            view, offset = view[count:], offset + count

    def truncate(self, descriptor: int, size: int) -> None:
        """Cut the file to a size in bytes."""
        os.ftruncate(descriptor, size)

    def sync(self, descriptor: int) -> None:
        """Wait until the file's bytes are on the disk."""
        _sync(descriptor)

    def sync_folder(self, path: str) -> None:
        """Wait until the names in a folder are on the disk."""
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def rename(self, source: str, target: str) -> None:
        """Replace the file `target` by `source`, atomically."""
        Path(source).replace(target)

    def remove(self, path: str) -> None:
        """Remove a file."""
        Path(path).unlink()


def translate(error: OSError, path: str) -> StorageError:
    """Translate a failure after which nothing is stored and the saver stays usable.

    Args:
        path: of the file or folder.
    """
    if error.errno in _FULL:
        return StorageFullError(
            f"no space is left to write {path!r}: {error}",
            do="free some space and run again; the saver stays usable",
        )
    return StorageError(
        f"{path!r} can't be written: {error}",
        do="check the path, its permissions and the limits of the process; nothing of this save "
        "was stored",
    )


def broken(error: OSError, path: str) -> SaverBrokenError:
    """Translate a failure after which it is unknown what the disk holds."""
    return SaverBrokenError(
        f"the disk failed while {path!r} was stored, so the last commit's outcome is unknown: "
        f"{error}",
        do="check the disk, then close and open the saver again; it verifies the files",
    )
