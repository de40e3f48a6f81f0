"""The folder of a saver: which process may use it, and what is remembered of its files.

A process locks the folder for as long as one of its savers is open on it; they share one `Folder`.
So what is remembered of a file is what the file says, as nobody else writes to it.
"""

import fcntl
import os
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

from actorgraph.errors import CheckpointError, SaverBrokenError, StorageBusyError, StorageError
from actorgraph.savers.jsonl.files import Files
from actorgraph.savers.jsonl.index import ThreadIndex, damaged, load
from actorgraph.savers.jsonl.lines import decode_heading
from actorgraph.savers.jsonl.list_rows import ListRowCache
from actorgraph.savers.jsonl.marks import Marks
from actorgraph.savers.jsonl.names import SUFFIX, file_name
from actorgraph.savers.jsonl.systems import LOG_NAME, RunLog

INDEXES_MAX = 256
"""Threads of which an index is kept; those used last."""

LOCK = ".lock"
TEMPORARY = ".tmp"


class Folder:
    """A locked folder. Its methods block, and are called in worker threads.

    Attributes:
        path: of the folder, resolved.
        writing: held while files change.
        reading: held while indexes are used or change; never while a file is synced.
        epochs: of threads that have no file any more, so that no run brings one of them back.
        broken: why nothing may be written before the folder is opened again.
        owners: thread -> the system that leases it. raised: thread -> its epoch, where an adoption
            has raised it and no line says so.
        list_rows: what was read of growing lists; under `reading`.
        unsynced: thread -> what is durable of a file to which more is being added; under `reading`.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.users = 0
        self.writing = threading.Lock()
        self.reading = threading.RLock()
        self.epochs: dict[str, int] = {}
        self.broken: SaverBrokenError | None = None
        self.owners: dict[str, bytes] = {}
        self.raised: dict[str, int] = {}
        self.unsynced: dict[str, ThreadIndex] = {}
        self.list_rows = ListRowCache()
        self._runs: RunLog | None = None
        self._indexes: OrderedDict[str, ThreadIndex] = OrderedDict()
        self._lock = _locked(path)
        self.marks = Marks(path)
        for left in Path(path).glob(f".*{TEMPORARY}"):
            left.unlink()  # of a rewrite that didn't end

    def release(self) -> None:
        """Let other processes in."""
        self.marks.close()
        if self._lock >= 0:
            # A child that was forked meanwhile may still have the descriptor.
            fcntl.flock(self._lock, fcntl.LOCK_UN)
            os.close(self._lock)

    def check(self) -> None:
        """See that the path still names the folder that is locked.

        Raises:
            SaverBrokenError: it names none or another one, or a save has failed.
        """
        if self.broken is not None:
            raise self.broken
        try:
            same = os.path.samestat(os.fstat(self._lock), Path(self.path, LOCK).stat())
        except OSError:
            same = False
        if not same:
            raise SaverBrokenError(
                f"the folder {self.path!r} was removed or replaced while it was open",
                do="close the saver, put the folder back, and open it again",
            )

    def forked(self) -> None:
        """In a child: the lock is the parent's, and ends with it."""
        os.close(self._lock)
        self._lock = -1

    def file(self, thread_id: str) -> str:
        """The path of a thread's file."""
        return str(Path(self.path, file_name(thread_id)))

    def index(self, thread_id: str, *, keep: bool = True) -> ThreadIndex:
        """What is durable of a thread's file; reads the file if need be. Under `reading`.

        Args:
            keep: whether to remember it; a search through all files doesn't.
        Raises:
            StorageError: the file is damaged.
        """
        found = self.unsynced.get(thread_id) or self._indexes.get(thread_id)
        if found is None:
            found = load(thread_id, self.file(thread_id), self.epochs.get(thread_id, 1))
            self.marks.check(found.path, found.size + found.unended)
            if keep:
                self.remember(found)
        elif thread_id in self._indexes:
            self._indexes.move_to_end(thread_id)
        found.state.epoch = max(found.state.epoch, self.raised.get(thread_id, 0))
        return found

    def runs(self) -> RunLog:
        """What systems have said of their runs; reads the file if need be. Under `reading`.

        Raises:
            StorageError: the file is damaged.
        """
        if self._runs is None:
            path = str(Path(self.path, LOG_NAME))
            self._runs = RunLog(path, partial(self.index, keep=False), self.marks)
        return self._runs

    def forget_runs(self) -> None:
        """Read what systems have said again before the next use."""
        with self.reading:
            self._runs = None

    def runs_if_any(self) -> RunLog | None:
        """The same; None if no system has ever been here. Under `reading`."""
        there = self._runs is not None or Path(self.path, LOG_NAME).exists()
        return self.runs() if there else None

    def remember(self, index: ThreadIndex) -> None:
        """Use this index from now on. Under `reading`."""
        self._indexes[index.thread_id] = index
        self._indexes.move_to_end(index.thread_id)
        while len(self._indexes) > INDEXES_MAX:
            self._indexes.popitem(last=False)

    def forget(self, thread_id: str | None = None) -> None:
        """Read a file, or all of them, again before the next use."""
        with self.reading:
            if thread_id is None:
                self._indexes.clear()
            else:
                self._indexes.pop(thread_id, None)

    def threads(
        self, *, inputs: bool = False, errors: list[Exception] | None = None
    ) -> Iterator[str]:
        """The ids of the threads with checkpoints, as their files say; other files are skipped.

        Under `reading`.

        Args:
            inputs: whether those too that have the input of a run alone.
            errors: takes those of files of lines that are damaged before their first checkpoint.
        """
        for path in Path(self.path).glob(f"[!.]*{SUFFIX}"):
            thread_id = None
            try:
                thread_id = _thread_in(path, inputs=inputs)
            except StorageError as error:
                if errors is not None:
                    errors.append(error)
            known = self.unsynced.get(thread_id or "")
            there = known is None or (known.starts if inputs else known.places)
            if thread_id is not None and there:
                yield thread_id


def _thread_in(path: Path, *, inputs: bool) -> str | None:
    """The id in a file, if it has a checkpoint, or any save, that can be read."""
    position = 0
    with suppress(OSError), path.open("rb") as file:
        for number, text in enumerate(file, 1):
            try:
                heading = decode_heading(text) if text.strip() else None
            except (ValueError, CheckpointError) as error:
                if text.startswith(_BEGIN) and text.endswith(b"\n"):
                    raise damaged(str(path), number, position, error) from error
                return None
            position += len(text)
            if heading is not None and (heading.checkpoints or inputs):
                return heading.thread_id
    return None


_BEGIN = b'{"v":'
"""What every line begins with; a file with another beginning is somebody else's."""


_OPEN: dict[str, Folder] = {}
_CHANGES = threading.Lock()


def _forked() -> None:
    for folder in _OPEN.values():
        folder.forked()
    _OPEN.clear()
    _CHANGES.release()


os.register_at_fork(
    before=_CHANGES.acquire, after_in_parent=_CHANGES.release, after_in_child=_forked
)


def acquire_folder(path: str, files: Files) -> Folder:
    """The folder of a path, made with mode 0700 if it isn't there, and locked.

    Raises:
        StorageBusyError: another process has it open.
        OSError: it can't be made or used.
    """
    above = [folder for folder in Path(path).absolute().parents if not folder.exists()]
    Path(path).mkdir(mode=0o700, parents=True, exist_ok=True)
    for folder in above:
        files.sync_folder(str(folder.parent))
    path = str(Path(path).resolve())
    with _CHANGES:
        folder = _OPEN.get(path)
        if folder is None:
            files.sync_folder(str(Path(path).parent))
            folder = _OPEN[path] = Folder(path)
        folder.users += 1
    with folder.writing:
        if folder.broken is not None:
            folder.forget()  # the next use verifies each file
            folder.broken = None
    return folder


def release_folder(folder: Folder) -> None:
    """One saver fewer; the last one of this process lets others in."""
    with _CHANGES:
        folder.users -= 1
        if not folder.users:
            if _OPEN.get(folder.path) is folder:  # in a forked child it isn't
                del _OPEN[folder.path]
            folder.release()


def _locked(path: str) -> int:
    lock = os.open(Path(path, LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        owner = os.pread(lock, 32, 0).decode(errors="replace").strip() or "unknown"
        os.close(lock)
        if not isinstance(error, BlockingIOError):
            raise
        raise StorageBusyError(
            f"process {owner} has {path!r} open, and files have one process at a time",
            do="close the saver there first; for several processes use SqliteSaver or "
            "PostgresSaver",
        ) from error
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    return lock
