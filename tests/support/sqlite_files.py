"""Record what SQLite does to its files, in this process (sqlite.org/vfs.html)."""

import ctypes
import importlib
from collections.abc import Callable, Generator
from contextlib import contextmanager
from ctypes import CFUNCTYPE, POINTER, Structure, c_char_p, c_int, c_int64, c_void_p
from typing import Any

from tests.support.power_cuts import Recorder

_WRITE = CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, c_int64)
_TRUNCATE = CFUNCTYPE(c_int, c_void_p, c_int64)
_SYNC = CFUNCTYPE(c_int, c_void_p, c_int)
_OPEN = CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_int, c_void_p)
_DELETE = CFUNCTYPE(c_int, c_void_p, c_char_p, c_int)
_WRITABLE = 2


class _Methods(Structure):
    _fields_ = [
        ("version", c_int),
        ("close", c_void_p),
        ("read", c_void_p),
        ("write", c_void_p),
        ("truncate", c_void_p),
        ("sync", c_void_p),
        ("others", c_void_p * 13),
    ]


class _Vfs(Structure):
    _fields_ = [
        ("version", c_int),
        ("file_size", c_int),
        ("path_max", c_int),
        ("next", c_void_p),
        ("name", c_char_p),
        ("data", c_void_p),
        ("open", c_void_p),
        ("delete", c_void_p),
    ]


def layer() -> Any:
    """SQLite's default layer of files; None where its functions can't be reached."""
    try:
        library = ctypes.CDLL(importlib.import_module("_sqlite3").__file__)
        find = library.sqlite3_vfs_find
    except (AttributeError, ImportError, OSError, TypeError):
        return None
    find.restype, find.argtypes = POINTER(_Vfs), [c_char_p]
    return find(None).contents


class _Recording:
    """Methods of files that record; kept as long as SQLite may call them."""

    def __init__(self, recorder: Recorder, vfs: Any, before: Callable[[str], int]) -> None:
        self.recorder = recorder
        self._before = before
        self._files: dict[int, tuple[str, bool]] = {}
        self._new: set[str] = set()
        self._methods: dict[int, _Methods] = {}
        self._real_open = _OPEN(vfs.open)
        self._real_delete = _DELETE(vfs.delete)
        self.open = _OPEN(self._open)
        self.delete = _DELETE(self._delete)
        self._kept: list[Any] = []

    def _open(self, vfs: int, name: int, file: int, flags: int, out: int) -> int:
        path = ctypes.string_at(name) if name else b""
        with self.recorder.lock:
            known = self.recorder.name_of(path) if path else None
            if known is not None and flags & _WRITABLE and (failed := self._before("open")):
                ctypes.cast(file, POINTER(c_void_p))[0] = None
                return failed
            there = known is not None and self.recorder.named(known)
            code = self._real_open(vfs, name, file, flags, out)
            if code == 0 and known is not None and flags & _WRITABLE:
                self.recorder.created(path)
                if not there:
                    self._new.add(known)
                self._files[file] = (known, False)
                self._replace(file)
            return code

    def _replace(self, file: int) -> None:
        place = ctypes.cast(file, POINTER(c_void_p))
        address = place[0]
        if address not in self._methods:
            self._methods[address] = self._wrapped(address)
        place[0] = ctypes.addressof(self._methods[address])

    def _wrapped(self, address: int) -> _Methods:
        real = ctypes.cast(address, POINTER(_Methods)).contents
        made = _Methods()
        size = (
            ctypes.sizeof(_Methods) if real.version >= 3 else 13 * 8 if real.version < 2 else 17 * 8
        )
        ctypes.memmove(ctypes.addressof(made), address, size)
        real_write, real_truncate = _WRITE(real.write), _TRUNCATE(real.truncate)
        real_sync = _SYNC(real.sync)

        def write(file: int, data: int, count: int, offset: int) -> int:
            with self.recorder.lock:
                failed = self._before("write")
                if failed:  # a torn one: half of it is there
                    count //= 2
                code = real_write(file, data, count, offset)
                number = self.recorder.named(self._files[file][0])
                raw = ctypes.string_at(data, count)
                self.recorder.add("write", file=number, offset=offset, data=raw)
                return failed or code

        def truncate(file: int, size: int) -> int:
            with self.recorder.lock:
                if failed := self._before("truncate"):
                    return failed
                code = real_truncate(file, size)
                number = self.recorder.named(self._files[file][0])
                self.recorder.add("truncate", file=number, offset=size)
                return code

        def sync(file: int, flags: int) -> int:
            with self.recorder.lock:
                if failed := self._before("sync"):
                    return failed
                name = self._files[file][0]
                self.recorder.add("sync", file=self.recorder.named(name))
                # SQLite syncs the folder with the first sync of a new journal or log.
                if name in self._new and name.endswith(("-wal", "-journal")):
                    self._new.discard(name)
                    self.recorder.add("sync folder")
                return 0

        calls = (_WRITE(write), _TRUNCATE(truncate), _SYNC(sync))
        self._kept += [*calls, real_write, real_truncate, real_sync]
        made.write, made.truncate, made.sync = (ctypes.cast(c, c_void_p).value for c in calls)
        return made

    def _delete(self, vfs: int, name: bytes, folder: int) -> int:
        with self.recorder.lock:
            if failed := self._before("delete"):
                return failed
            code = self._real_delete(vfs, name, folder)
            if code == 0:
                self.recorder.removed(name)
                if folder:
                    self.recorder.add("sync folder")
            return code


_KEPT: list[_Recording] = []
"""SQLite may close a file after the test: its methods must still be there."""


def never(_: str) -> int:
    """No call fails."""
    return 0


@contextmanager
def recording_sqlite(recorder: Recorder, before: Callable[[str], int] = never) -> Generator[None]:
    """Record what SQLite does to the files of a folder that are opened meanwhile.

    Args:
        before: called before each operation; returns SQLite's code of the error, or 0.
    """
    vfs = layer()
    calls = _Recording(recorder, vfs, before)
    _KEPT.append(calls)
    old = vfs.open, vfs.delete
    vfs.open = ctypes.cast(calls.open, c_void_p).value
    vfs.delete = ctypes.cast(calls.delete, c_void_p).value
    try:
        yield
    finally:
        vfs.open, vfs.delete = old
