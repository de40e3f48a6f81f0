"""The states that a power cut may leave of files: recorded operations, replayed in part.

All that was synced is there. Of later operations a file system may have any part: sizes before
bytes, a later block and not an earlier one, names before data (Pillai et al., OSDI 2014). Names of
a folder appear in order.
"""

import hashlib
import os
import random
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

SECTOR = 512
TRIES = 4
"""States that are made for each that is wanted: many are the same."""
KINDS = ("nothing", "all", "prefix", "torn", "holes", "sizes", "names", "subset")


class Op(NamedTuple):
    """One operation: create, rename, remove, write, truncate, sync, sync folder, note.

    Attributes:
        file: number of the file.
        name: the file's name; of a rename the new one.
        offset: of a write; the size of a truncation.
        note: what the program says at this point.
    """

    kind: str
    file: int = 0
    name: str = ""
    offset: int = 0
    data: bytes = b""
    note: Any = None


class Recorder:
    """Operations on the files of one folder, in order.

    Attributes:
        inodes: number of a file -> its inode.
    """

    def __init__(self, folder: Path, before: Callable[[str], OSError | None]) -> None:
        self.folder = folder.resolve()
        self.before = before
        self.ops: list[Op] = []
        self.inodes: dict[int, int] = {}
        self.lock = threading.RLock()
        self._numbers: dict[int, int] = {}
        self._names: dict[str, int] = {}

    def add(self, kind: str, **fields: Any) -> None:
        """Append an operation."""
        with self.lock:
            self.ops.append(Op(kind, **fields))

    def name_of(self, path: Any) -> str | None:
        """The name of a file of the folder; None for another one."""
        try:
            found = Path(os.fsdecode(path)).absolute()
        except TypeError:
            return None
        return found.name if found.parent.resolve() == self.folder else None

    def created(self, path: Any) -> None:
        """A file was opened: it is new if its name is."""
        name = self.name_of(path)
        if name is not None and name not in self._names:
            inode, number = Path(os.fsdecode(path)).stat().st_ino, len(self.inodes) + 1
            self.inodes[number] = inode
            self._numbers[inode] = self._names[name] = number
            self.add("create", file=number, name=name)

    def number(self, descriptor: int) -> int:
        """The file of a descriptor; 0 for another folder's."""
        return self._numbers.get(os.fstat(descriptor).st_ino, 0)

    def check(self, kind: str) -> None:
        """Fail, if this operation is to."""
        if error := self.before(kind):
            raise error

    def named(self, name: str) -> int:
        """The file that has a name; 0 if none has."""
        return self._names.get(name, 0)

    def removed(self, path: Any) -> None:
        """A name was removed."""
        name = self.name_of(path)
        if name is not None and name in self._names:
            number = self._names.pop(name)
            self._numbers.pop(self.inodes[number], None)
            self.add("remove", file=number, name=name)

    def renamed(self, source: Any, target: Any) -> None:
        """A name has replaced another one."""
        old, new = self.name_of(source), self.name_of(target)
        if old is None or new is None:
            return
        gone, number = self._names.pop(new, None), self._names.pop(old)
        if gone is not None:
            self._numbers.pop(self.inodes[gone], None)
        self._names[new] = self._numbers[self.inodes[number]] = number
        self.add("rename", file=number, name=new)


@contextmanager
def recording(
    folder: Path, before: Callable[[str], OSError | None] = lambda _: None
) -> Generator[Recorder]:
    """Record what this process does to the files of a folder through `os`.

    Args:
        before: called before each operation; returns the error with which it fails, or None.
    """
    recorder = Recorder(folder, before)
    with pytest.MonkeyPatch.context() as patch:
        for name, make in _WRAPPERS.items():
            patch.setattr(os, name, make(recorder, getattr(os, name)))
        yield recorder


def _open(recorder: Recorder, real: Callable[..., int]) -> Callable[..., int]:
    def call(path: Any, flags: int, *args: Any, **options: Any) -> int:
        with recorder.lock:
            if flags & os.O_CREAT and recorder.name_of(path) is not None:
                recorder.check("open")
            descriptor = real(path, flags, *args, **options)
            if flags & os.O_CREAT:
                recorder.created(path)
            return descriptor

    return call


def _pwrite(recorder: Recorder, real: Callable[..., int]) -> Callable[..., int]:
    def call(descriptor: int, data: Any, offset: int) -> int:
        with recorder.lock:
            number = recorder.number(descriptor)
            failed = recorder.before("write") if number else None
            sent = bytes(data)
            count = real(descriptor, sent[: len(sent) // 2] if failed else sent, offset)
            if number:
                recorder.add("write", file=number, offset=offset, data=sent[:count])
            if failed is not None and failed.errno:  # torn; with no number it is short
                raise failed
            return count

    return call


def _truncate(recorder: Recorder, real: Callable[..., None]) -> Callable[..., None]:
    def call(descriptor: int, size: int) -> None:
        with recorder.lock:
            number = recorder.number(descriptor)
            if number:
                recorder.check("truncate")
            real(descriptor, size)
            if number:
                recorder.add("truncate", file=number, offset=size)

    return call


def _sync(recorder: Recorder, real: Callable[..., None]) -> Callable[..., None]:
    def call(descriptor: int) -> None:
        with recorder.lock:  # no real one: nothing of a test loses power
            folder = recorder.folder.stat() if recorder.folder.exists() else None
            if folder is not None and os.path.samestat(os.fstat(descriptor), folder):
                recorder.check("sync folder")
                recorder.add("sync folder")
            elif number := recorder.number(descriptor):
                recorder.check("sync")
                recorder.add("sync", file=number)

    return call


def _unlink(recorder: Recorder, real: Callable[..., None]) -> Callable[..., None]:
    def call(path: Any, **options: Any) -> None:
        with recorder.lock:
            if recorder.name_of(path) is not None:
                recorder.check("remove")
            real(path, **options)
            recorder.removed(path)

    return call


def _replace(recorder: Recorder, real: Callable[..., None]) -> Callable[..., None]:
    def call(source: Any, target: Any, **options: Any) -> None:
        with recorder.lock:
            if recorder.name_of(target) is not None:
                recorder.check("rename")
            real(source, target, **options)
            recorder.renamed(source, target)

    return call


_WRAPPERS: dict[str, Callable[[Recorder, Any], Any]] = {
    "open": _open,
    "pwrite": _pwrite,
    "ftruncate": _truncate,
    "fsync": _sync,
    "fdatasync": _sync,
    "unlink": _unlink,
    "replace": _replace,
}


class State(NamedTuple):
    """The files that one power cut has left.

    Attributes:
        at: number of operations before it.
        files: name -> number of the file, and its bytes.
        notes: what the program had said before it.
    """

    at: int
    kind: str
    files: dict[str, tuple[int, bytes]]
    notes: list[Any]

    def write(self, folder: Path) -> dict[int, int]:
        """Make the folder; return old inode -> new inode of its files."""
        folder.mkdir(parents=True)
        for name, (_, data) in self.files.items():
            (folder / name).write_bytes(data)
        return {number: (folder / name).stat().st_ino for name, (number, _) in self.files.items()}


class _Disk:
    """The contents that are surely on the disk, and operations on their way."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.data: dict[int, bytes] = {}
        self.waiting: list[Op] = []
        self.waiting_names: list[Op] = []

    def take(self, op: Op) -> None:
        if op.kind in {"write", "truncate"}:
            self.waiting.append(op)
        elif op.kind in {"create", "rename", "remove"}:
            self.waiting_names.append(op)
        elif op.kind == "sync":
            image = bytearray(self.data.get(op.file, b""))
            for one in self.waiting:
                if one.file == op.file:
                    _apply(image, one)
            self.data[op.file] = bytes(image)
            self.waiting = [one for one in self.waiting if one.file != op.file]
        elif op.kind == "sync folder":
            self.names = _named(self.names, self.waiting_names)
            self.waiting_names = []

    def left(self, kind: str, chance: random.Random) -> dict[str, tuple[int, bytes]]:
        names, waiting = self.waiting_names, self.waiting
        cut = chance.randrange(len(names) + 1)
        names = {"nothing": [], "prefix": names[:cut], "subset": names[:cut]}.get(kind, names)
        images: dict[int, bytearray] = {}
        last = len(waiting) - 1 if kind == "torn" else chance.randrange(len(waiting) + 1)
        missing = {"holes": 0.5, "sizes": 1.0}.get(kind, 0.0)
        for place, one in enumerate(waiting):
            op = one
            image = images.setdefault(op.file, bytearray(self.data.get(op.file, b"")))
            if kind in {"nothing", "names"} or (kind == "prefix" and place >= last):
                continue
            if kind == "subset" and chance.random() < 0.5:
                continue
            if kind == "torn" and place == last and op.kind == "write":
                op = op._replace(data=op.data[: chance.randrange(len(op.data) + 1)])
            _apply(image, op, missing, chance)
        there = _named(self.names, names)
        return {
            name: (number, bytes(images.get(number, self.data.get(number, b""))))
            for name, number in there.items()
        }


def _named(names: dict[str, int], ops: list[Op]) -> dict[str, int]:
    there = dict(names)
    for op in ops:
        if op.kind == "remove":
            there.pop(op.name, None)
            continue
        if op.kind == "rename":
            there = {name: number for name, number in there.items() if number != op.file}
        there[op.name] = op.file
    return there


def _apply(
    image: bytearray, op: Op, missing: float = 0.0, chance: random.Random | None = None
) -> None:
    """Carry out a write or a truncation; of a write sectors may be missing."""
    if op.kind == "truncate":
        del image[op.offset :]
        image.extend(bytes(op.offset - len(image)))
        return
    end = op.offset + len(op.data)
    image.extend(bytes(max(0, end - len(image))))
    at = op.offset
    while at < end:
        until = min(end, (at // SECTOR + 1) * SECTOR)
        if chance is None or chance.random() >= missing:
            image[at:until] = op.data[at - op.offset : until - op.offset]
        at = until


def without_syncs(ops: list[Op]) -> list[Op]:
    """The same program, if it synced nothing."""
    return [op for op in ops if not op.kind.startswith("sync")]


def states(ops: list[Op], count: int, chance: random.Random) -> Iterator[State]:
    """Yield up to so many different states, over all points at which the power may be cut."""
    disk, notes, seen, tried = _Disk(), list[Any](), set[bytes](), 0
    for at, op in enumerate(ops, 1):
        if op.kind == "note":
            notes.append(op.note)
            continue
        disk.take(op)
        while tried * len(ops) < TRIES * count * at:
            tried += 1
            kind = chance.choice(KINDS)
            found = State(at, kind, disk.left(kind, chance), list(notes))
            digest = _digest(found)
            if digest not in seen and len(seen) < count:
                seen.add(digest)
                yield found


def _digest(state: State) -> bytes:
    made = hashlib.sha256(repr(len(state.notes)).encode())
    for name, (number, data) in sorted(state.files.items()):
        made.update(f"{name} {number} {len(data)} ".encode())
        made.update(data)
    return made.digest()
