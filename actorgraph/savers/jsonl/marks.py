"""Marks: the acknowledged size of each file, to detect files that were cut."""

import os
import struct
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from zlib import crc32

from actorgraph.errors import StorageError

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
    Removing the marks gives up this check, and nothing else.

    Changed by the folder's one writer; readers call `check`.
    """

    def __init__(self, folder: str) -> None:
        self._path = Path(folder, MARKS_NAME)
        self._descriptor = -1
        self._slots: dict[int, int] = {}
        self._sizes: dict[int, tuple[int, int]] = {}
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
        slot = self._slots.setdefault(key, len(self._slots))
        self._sizes[key] = (inode, size)
        body = _KEYED.pack(key, inode, size)
        with suppress(OSError):  # a full disk must not fail a save that is stored
            if self._descriptor < 0:
                self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            os.pwrite(self._descriptor, body + struct.pack(">II", crc32(body), 0), slot * 32)

    def check(self, path: str, size: int) -> None:
        """Check that a file is not shorter than its mark.

        Args:
            size: where its last complete line ends, in bytes.
        Raises:
            StorageError: it is shorter.
        """
        inode, marked = self._sizes.get(_key_of(Path(path).name), (0, 0))
        if size >= marked:
            return
        with suppress(OSError):
            if os.stat(path).st_ino == inode:  # noqa: PTH116 - as wherever files are read
                raise StorageError(
                    f"{path!r} was cut: {marked} bytes were acknowledged, but its complete lines "
                    f"end at byte {size}",
                    do="restore the file from a backup; or, to continue with what is left, remove "
                    f"{str(self._path)!r} while the saver is closed",
                )

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _key_of(name: str) -> int:
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest())
