"""File operations, names of threads' files, and marks of acknowledged sizes.

Every operation that changes a file is a method of `Files`, so that tests can inject failures. A
file's name is durable once its folder is synced. After a failed fsync the disk's content is unknown
(Rebello et al., "Can Applications Recover from fsync Failures?", USENIX ATC 2020).
"""

import os
import struct
from contextlib import suppress
from hashlib import blake2b, sha256
from pathlib import Path
from zlib import crc32

from actorgraph.errors import SaverBrokenError, StorageError, StorageFullError
from actorgraph.storage.file_errors import is_full

_WRITING = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)


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
        getattr(os, "fdatasync", os.fsync)(descriptor)

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
    if is_full(error):
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


def check_unchanged(path: str, inode: int, size: int, tail: int = 0) -> None:
    """Check that no other program has changed a file since it was read or written here.

    Args:
        inode: of the file; 0 if it was missing.
        size: of its lines, in bytes.
        tail: number of bytes behind them that were never acknowledged.
    Raises:
        StorageError: it was made, removed, replaced, shortened or extended.
    """
    try:
        status = os.stat(path)  # noqa: PTH116 - faster than Path.stat, at every commit
    except OSError:
        status = None
    found_size = 0 if status is None else status.st_size
    if status is None:
        how = "removed" if inode else ""
    elif not inode:
        how = "made by another program" if found_size else ""
    elif status.st_ino != inode:
        how = "replaced"
    elif found_size < size:
        how = f"shortened by {size - found_size} bytes"
    else:
        how = "" if found_size in (size, size + tail) else f"extended by {found_size - size} bytes"
    if how:
        raise changed_file(path, how)


def changed_file(path: str, how: str) -> StorageError:
    """Return the error of a file that another program has changed.

    Args:
        how: "replaced", "removed", ...
    """
    return StorageError(
        f"{path!r} was {how} while its folder was open; nothing was written to it",
        do="don't let other programs change the file; close every saver of the folder, put back "
        "the right file, and open it again",
    )


SUFFIX = ".jsonl"
_SAFE = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789-_")
_LENGTH_MAX = 180
_DEVICES = {"con", "prn", "aux", "nul", *(f"{d}{n}" for d in ("com", "lpt") for n in range(10))}
"""Names that Windows reserves for devices, with any suffix after a dot."""


def file_name(thread_id: str) -> str:
    """Return the name of a thread's file.

    Lower-case letters, digits, "-" and "_" stay, every other byte of the id's UTF-8 becomes "%" and
    two hex digits. So no name is "..", none has a dot of its own, and ids that differ only in case
    have names that differ where file systems ignore case. An id whose name would be too long is
    hashed: ids are read from the lines, never from names.
    """
    raw = thread_id.encode()
    name = "".join(chr(byte) if byte in _SAFE else f"%{byte:02x}" for byte in raw)
    if name in _DEVICES:
        name = f"%{raw[0]:02x}{name[1:]}"
    if not name or len(name) > _LENGTH_MAX:
        name = f"%%{sha256(raw).hexdigest()}"  # no escaped byte looks like this
    return name + SUFFIX


MARKS_NAME = ".marks"
_SLOT = struct.Struct(">QQQII")
_KEYED = struct.Struct(">QQQ")


class Marks:
    """Acknowledged sizes of a folder's files, to detect files that were cut.

    After a crash a file may end in the middle of a save that was never acknowledged. A file that
    was cut by something else looks the same. So the file of marks has for each file its size when
    a save of it was last acknowledged: 32 bytes in place, written after the sync of the lines, and
    not synced. It survives the process; after a power cut a mark may be older, never newer than
    the lines. A mark belongs to one inode: a file that is rewritten has none until its next save.
    File systems give the number of a removed inode to a new file, so the mark of a file that is
    removed or replaced goes first, durably. Removing the marks gives up this check, and nothing
    else.

    Changed by the folder's one writer; readers call `check`.
    """

    def __init__(self, folder: str) -> None:
        self._path = Path(folder, MARKS_NAME)
        self._descriptor = -1
        self._slots: dict[int, int] = {}
        self._sizes: dict[int, tuple[int, int]] = {}
        self._written = set[int]()  # by this process
        with suppress(OSError):
            self._read(self._path.read_bytes())

    def _read(self, data: bytes) -> None:
        for slot in range(len(data) // _SLOT.size):
            key, inode, size, crc, _ = _SLOT.unpack_from(data, slot * _SLOT.size)
            if crc == crc32(_KEYED.pack(key, inode, size)):
                self._slots[key] = slot
                self._sizes[key] = (inode, size)

    def put(self, name: str, inode: int, size: int) -> None:
        """Mark the size of a file whose bytes are all on the disk."""
        key = _key_of(name)
        slot = self._slots.setdefault(key, max(self._slots.values(), default=-1) + 1)
        self._sizes[key] = (inode, size)
        self._written.add(key)
        body = _KEYED.pack(key, inode, size)
        with suppress(OSError):  # a full disk must not fail a save that is stored
            if self._descriptor < 0:
                self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            os.pwrite(self._descriptor, body + struct.pack(">II", crc32(body), 0), slot * 32)

    def drop(self, name: str) -> None:
        """Forget the mark of a file that is about to be removed or replaced, durably."""
        if self._sizes.get(_key_of(name), (0, 0))[1]:
            self.put(name, 0, 0)
            with suppress(OSError):  # a power cut may bring an older mark back, and no more
                getattr(os, "fdatasync", os.fsync)(self._descriptor)

    def size_of(self, path: str) -> int:
        """Return the acknowledged size of a file in bytes; 0 if it is unknown."""
        inode, marked = self._sizes.get(_key_of(Path(path).name), (0, 0))
        with suppress(OSError):
            if marked and Path(path).stat().st_ino == inode:
                return marked
        return 0

    def trust_files(self) -> None:
        """Forget which files this process has written: their content is unknown now."""
        self._written.clear()

    def check(self, path: str, size: int) -> None:
        """Check that a file is not shorter than its mark; one written here must end at it.

        Args:
            size: where its last complete line ends, in bytes.
        Raises:
            StorageError: it is shorter, or was removed or replaced while the folder was open.
        """
        key = _key_of(Path(path).name)
        inode, known = self._sizes.get(key, (0, 0))
        if known and key in self._written:
            check_unchanged(path, inode, known)
        if size < known and size < (marked := self.size_of(path)):
            raise StorageError(
                f"{path!r} was cut: {marked} bytes were acknowledged, but its complete lines "
                f"end at byte {size}",
                do="restore the file from a backup; or, to continue with the rest, remove "
                f"{str(self._path)!r} while the saver is closed",
            )

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _key_of(name: str) -> int:
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest())
