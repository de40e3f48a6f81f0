"""The locked folder of a saver, with indexes of its files.

A process locks the folder as long as one of its savers has it open; they share one `Folder`. So an
index in memory always agrees with its file: no other process writes to it.
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
from actorgraph.savers.jsonl.alarm_index import AlarmIndex, may_have_alarm
from actorgraph.savers.jsonl.files import SUFFIX, Files, Marks, file_name, translate
from actorgraph.savers.jsonl.index import ListRowCache, ThreadIndex, damaged_line, load
from actorgraph.savers.jsonl.lost_appends import is_lost_append
from actorgraph.savers.jsonl.schema import decode_heading
from actorgraph.savers.jsonl.systems import LOG_NAME, RunLog
from actorgraph.storage.file_locks import try_lock

INDEXES_MAX = 256
"""Number of threads whose index is kept; the least recently used go first."""

LOCK = ".lock"
ALARMS_NAME = ".alarms"
"""An empty file that says that threads of the folder have had alarms."""
TEMPORARY = ".tmp"


class Folder:
    """A locked folder. Its methods block, and are called in worker threads.

    Attributes:
        path: of the folder, resolved.
        users: savers of this process that have it open.
        writing: lock held while files change.
        reading: lock held while indexes are used or change; never while a file is synced.
        epochs: thread -> epoch of a deleted thread, so that no run brings it back.
        broken: the error that blocks writing until the folder is opened again.
        owners: thread -> the ActorSystem that leases it.
        raised: thread -> epoch that an adoption has raised, while no line has it.
        list_rows: cached rows of growing lists; under `reading`.
        unsynced: thread -> durable index of a file that is being appended to; under `reading`.
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
        self._alarms: AlarmIndex | None = None
        self._had_alarms = Path(path, ALARMS_NAME).exists()
        self._indexes: OrderedDict[str, ThreadIndex] = OrderedDict()
        self._lock = _locked(path)
        lock = os.fstat(self._lock)
        self._lock_id, self._id = (lock.st_dev, lock.st_ino), self._stat(path)
        self.marks = Marks(path)

    def release(self) -> None:
        """Unlock the folder for other processes."""
        self.marks.close()
        if self._lock >= 0:
            # Closing is not enough: a forked child may still have the descriptor.
            fcntl.flock(self._lock, fcntl.LOCK_UN)
            os.close(self._lock)

    def check(self, place: str = "") -> None:
        """Check that a path still names the locked folder, and that no save has failed.

        Args:
            place: default the folder's own path.
        Raises:
            SaverBrokenError: the folder or its lock was removed or replaced, or a save has failed.
        """
        if self.broken is not None:
            raise self.broken
        self.check_place(place)

    def check_place(self, place: str = "") -> None:
        """Check that a path, and the folder's own, still name the locked folder.

        Raises:
            SaverBrokenError: the folder or its lock was removed or replaced.
        """
        for path in {place or self.path, self.path}:
            if self._stat(path, LOCK) != self._lock_id:
                raise self._lost(path)

    def _stat(self, *path: str) -> tuple[int, int] | None:
        try:
            status = os.stat(os.path.join(*path))  # noqa: PTH116, PTH118 - at every commit
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def _lost(self, path: str) -> SaverBrokenError:
        identity = self._stat(path)
        if identity == self._id:
            how = "removed" if self._stat(path, LOCK) is None else "replaced"
            return SaverBrokenError(
                f"the lock file of the folder {path!r} was {how} while the folder was open, so "
                "that another process may write to it by now: the last save may be lost",
                do="leave '.lock' where it is; make sure that one process alone uses the folder, "
                "close every saver of it here, and open it again",
            )
        how = "removed or renamed" if identity is None else "replaced"
        return SaverBrokenError(
            f"the folder {path!r} was {how} while it was open: the last save may be lost",
            do="close every saver of the folder, put it back, and open it again",
        )

    def forked(self) -> None:
        """Give up the lock in a forked child: it belongs to the parent."""
        os.close(self._lock)
        self._lock = -1

    def file(self, thread_id: str) -> str:
        """Return the path of a thread's file."""
        return str(Path(self.path, file_name(thread_id)))

    def index(self, thread_id: str, *, keep: bool = True) -> ThreadIndex:
        """Return the index of a thread's durable lines; may read the file. Under `reading`.

        Args:
            keep: whether to cache it; searches through all files don't.
        Raises:
            StorageError: the file is damaged.
        """
        index = self.unsynced.get(thread_id) or self._indexes.get(thread_id)
        if index is None:
            path = self.file(thread_id)
            epoch, marked = self.epochs.get(thread_id, 1), self.marks.size_of(path)
            index = load(thread_id, path, epoch, marked)
            self.marks.check(index.path, index.size + index.unended)
            if keep:
                self.remember(index)
        elif thread_id in self._indexes:
            self._indexes.move_to_end(thread_id)
        index.state.epoch = max(index.state.epoch, self.raised.get(thread_id, 0))
        return index

    def runs(self) -> RunLog:
        """Return the log of ActorSystems' runs; may read its file. Under `reading`.

        Raises:
            StorageError: the file is damaged.
        """
        if self._runs is None:
            path = str(Path(self.path, LOG_NAME))
            self._runs = RunLog(path, partial(self.index, keep=False), self.marks)
        return self._runs

    def forget_runs(self) -> None:
        """Read the log of runs again before its next use."""
        with self.reading:
            self._runs = None

    def runs_if_any(self) -> RunLog | None:
        """Return the log of runs; None if no ActorSystem has used the folder. Under `reading`."""
        exists = self._runs is not None or Path(self.path, LOG_NAME).exists()
        return self.runs() if exists else None

    def remember(self, index: ThreadIndex) -> None:
        """Cache this index, in place of the thread's last one. Under `reading`."""
        if self._alarms is not None:
            self._alarms.put(index.thread_id, index.alarm)
            self._alarms.unread.pop(index.path, None)
        self._indexes[index.thread_id] = index
        self._indexes.move_to_end(index.thread_id)
        while len(self._indexes) > INDEXES_MAX:
            self._indexes.popitem(last=False)

    def forget(self, thread_id: str | None = None) -> None:
        """Read a thread's file, or all files, again before the next use."""
        with self.reading:
            if thread_id is None:
                self._indexes.clear()
                self._alarms = None
            else:
                self._indexes.pop(thread_id, None)

    def note_alarms(self, files: Files) -> None:
        """Note on the disk that the folder has alarms, before its first one. Under `writing`.

        A folder without that note is not searched for alarms: of threads whose questions have no
        times none is ever read for them.

        Raises:
            StorageError: it can't be noted.
        """
        if self._had_alarms:
            return
        path = str(Path(self.path, ALARMS_NAME))
        try:
            os.close(files.create(path))
            files.sync_folder(self.path)
        except OSError as error:
            raise translate(error, path) from error
        self._had_alarms = True

    def alarms(self) -> AlarmIndex:
        """Return the index of alarms; the first time it reads all files. Under `reading`.

        A file that can't be opened is tried again each time; one that is damaged stays so until it
        is deleted or the folder is opened again.
        """
        alarms, paths = self._alarms, Path(self.path).glob(f"[!.]*{SUFFIX}")
        if alarms is None:
            alarms = AlarmIndex()
            paths = paths if self._had_alarms else iter(())
        else:
            unread = alarms.unread.items()
            paths = iter([Path(path) for path, error in unread if isinstance(error, OSError)])
        for path in paths:
            alarms.unread.pop(str(path), None)
            try:
                if may_have_alarm(path):
                    thread_id = _thread_in(path, self.marks, inputs=True)
                    if thread_id is not None:
                        alarms.put(thread_id, self.index(thread_id, keep=False).alarm)
            except (FileNotFoundError, IsADirectoryError):
                pass
            except Exception as error:  # noqa: BLE001 - lines of others may raise anything
                alarms.unread[str(path)] = error
        self._alarms = alarms
        return alarms

    def threads(
        self, *, inputs: bool = False, errors: list[Exception] | None = None
    ) -> Iterator[str]:
        """Yield the ids of threads with checkpoints; files of other programs are skipped.

        Under `reading`.

        Args:
            inputs: also yield threads that have a run's input and no checkpoint.
            errors: receives the errors of files that are damaged before their first checkpoint.
        """
        for path in Path(self.path).glob(f"[!.]*{SUFFIX}"):
            thread_id = None
            try:
                thread_id = _thread_in(path, self.marks, inputs=inputs)
            except StorageError as error:
                if errors is not None:
                    errors.append(error)
            # The file may hold lines that are not durable yet: its durable index decides.
            known = self.unsynced.get(thread_id or "")
            durable = known is None or (known.starts if inputs else known.places)
            if thread_id is not None and durable:
                yield thread_id


def _thread_in(path: Path, marks: Marks, *, inputs: bool) -> str | None:
    """Return the thread id of a file that has a checkpoint (or, with `inputs`, any save)."""
    position, lines = 0, 0
    with suppress(OSError), path.open("rb") as file:
        for number, text in enumerate(file, 1):
            try:
                heading = decode_heading(text) if text.strip() else None
            except (ValueError, CheckpointError) as error:
                ours = text.startswith(_BEGIN) and text.endswith(b"\n")
                marked = marks.size_of(str(path))
                if ours and not is_lost_append(text, lines + 1, position, file, marked):
                    raise damaged_line(str(path), number, position, error) from error
                return None
            position += len(text)
            lines += heading is not None
            if heading is not None and (heading.checkpoints or inputs):
                return heading.thread_id
    return None


_BEGIN = b'{"v":'
"""Every line begins with this; a file that doesn't belongs to another program."""


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
    """Lock a folder for this process and count one more user of it.

    Args:
        path: created with mode 0700 if missing.
    Raises:
        StorageBusyError: another process has it open.
        OSError: it can't be created or used.
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
            folder = _OPEN[path] = _opened(path, files)
        folder.users += 1
    with folder.writing:
        if folder.broken is not None:
            folder.forget()  # so that the next use reads and verifies each file
            folder.broken = None
    return folder


def _opened(path: str, files: Files) -> Folder:
    folder = Folder(path)
    try:
        for left in Path(path).glob(f".*{TEMPORARY}"):
            files.remove(str(left))  # a rewrite was interrupted before its rename
        # A process that died may have made files whose names are not on the disk yet, and the
        # next save syncs those of new files alone.
        files.sync_folder(path)
    except BaseException:
        folder.release()
        raise
    return folder


def release_folder(folder: Folder) -> None:
    """Count one user fewer; the last one of this process unlocks the folder."""
    with _CHANGES:
        folder.users -= 1
        if not folder.users:
            if _OPEN.get(folder.path) is folder:  # not in a forked child: see `_forked`
                del _OPEN[folder.path]
            folder.release()


def _locked(path: str) -> int:
    lock = os.open(Path(path, LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not try_lock(lock):
            owner = os.pread(lock, 32, 0).decode(errors="replace").strip() or "unknown"
            raise StorageBusyError(
                f"process {owner} has {path!r} open; only one process at a time can use a folder",
                do="close the saver there first; for several processes use SqliteSaver or "
                "PostgresSaver",
            )
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    except BaseException:
        os.close(lock)
        raise
    return lock
