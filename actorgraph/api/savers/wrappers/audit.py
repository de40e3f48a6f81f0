"""AuditedSaver and AuditLog: a tamper-evident log of every operation on a thread.

The log is an append-only file of entries, each with the hash of the one before. An entry is one
line of JSON: n, time (ISO 8601, UTC), actor, op, thread, id, prev, hash. `hash` is the SHA-256 of
the line's other fields, so a change, a removal or an insertion breaks the chain from there on.
An entry that was written before the one in front of it was on the disk has `unsynced`, the number
of such entries: so holes that a power cut leaves in the end of the file differ from damage.
Cutting the end off leaves a shorter valid chain: store `log.head` elsewhere from time to time,
and pass it to `verify_audit_log`. A log that was trimmed begins with a line that has only
`floor`, the number of the last entry removed, and its hash.
"""

import errno
import json
import os
import stat
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from io import FileIO
from pathlib import Path
from typing import Any, NamedTuple

import anyio.to_thread

from actorgraph.api.savers.requests import ids_of, name_of
from actorgraph.api.savers.wrappers.wrapped import WrappedSaver, current_principal
from actorgraph.errors import AuditError, CheckpointError
from actorgraph.ports import Saver
from actorgraph.storage.file_errors import checked_path
from actorgraph.storage.file_locks import try_lock
from actorgraph.storage.holes import has_hole
from actorgraph.storage.logged_problems import warn
from actorgraph.storage.part_files import sync_path
from actorgraph.values.commits import Commit, CommitOutcome, Query, Request

_START = "0" * 64


class AuditHead(NamedTuple):
    """The newest entry of a log.

    Attributes:
        number: from 1; 0 for an empty log.
        hash: hexadecimal SHA-256.
    """

    number: int
    hash: str


class AuditLog:
    """A log in a file. Safe to use from several threads; one process at a time may write it.

    Args:
        path: the file, created with mode 0600 if it doesn't exist.

    Attributes:
        path: as given.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(checked_path(path, "AuditLog"))
        self._lock = threading.Lock()
        self._file: FileIO | None = None
        self._head = AuditHead(0, _START)
        self._durable = 0  # number of the newest entry that is on the disk

    @property
    def head(self) -> AuditHead:
        """The newest entry; 0 and zeros for an empty log."""
        self.open()
        return self._head

    def open(self) -> None:
        """Verify the file and open it for appending; no-op if it is open.

        Raises:
            AuditError: it was tampered with, can't be written, or another process writes it.
        """
        with self._lock:
            if self._file is None:
                self._open()

    def append(self, actor: str | None, op: str, thread: str, ids: str) -> None:
        """Add an entry; `sync` makes it durable.

        Args:
            actor: the principal; None if unknown.
            op: the operation's name.
            thread: the thread's id; empty for all threads.
            ids: of checkpoints or interrupts, or the source of a copy.
        Raises:
            AuditError: the file can't be written.
        """
        self.open()
        with self._lock:
            number = self._head.number + 1
            now = datetime.now(UTC).isoformat()
            fields = {"n": number, "time": now, "actor": actor, "op": op, "thread": thread}
            entry = {**fields, "id": ids, "prev": self._head.hash}
            if unsynced := self._head.number - self._durable:
                entry["unsynced"] = unsynced
            digest = _hash(entry)
            line = json.dumps({**entry, "hash": digest}, ensure_ascii=True) + "\n"
            try:
                self._write(line.encode())
            except OSError as error:
                raise AuditError(
                    f"the audit log {str(self.path)!r} can't be written: {error}",
                    do="free some disk space; until then every read and save is refused",
                ) from error
            self._head = AuditHead(number, digest)

    def sync(self) -> None:
        """Flush every entry to disk.

        Raises:
            AuditError: the flush failed.
        """
        self.open()
        with self._lock:
            try:
                if self._file is not None:
                    os.fsync(self._file.fileno())
                    self._durable = self._head.number
            except OSError as error:
                raise AuditError(
                    f"the audit log {str(self.path)!r} can't be written: {error}",
                    do="check the disk",
                ) from error

    def trim(self, before: datetime) -> int:
        """Remove entries older than a time, e.g. for a retention policy.

        The file is replaced in one step: its new first line holds the number and the hash of the
        last entry removed, so that the chain can still be verified.

        Args:
            before: with a time zone.
        Returns: the number of entries removed.
        Raises:
            AuditError: the new file can't be written; the log stays as it was.
        """
        self.open()
        with self._lock:
            limit, lines = before.astimezone(UTC).isoformat(), self.path.read_bytes().splitlines()
            known, gone, first = [json.loads(line) for line in lines], 0, 0
            if known and "floor" in known[0]:
                first = 1
            while first + gone < len(known) and known[first + gone]["time"] < limit:
                gone += 1
            if gone:
                try:
                    self._rewrite(known[first + gone - 1], lines[first + gone :])
                except OSError as error:
                    raise AuditError(
                        f"the audit log {str(self.path)!r} can't be trimmed: {error}",
                        do="free some disk space, or check the permissions of its folder; the log "
                        "stays as it was",
                    ) from error
            return gone

    def _rewrite(self, last: dict[str, Any], lines: list[bytes]) -> None:
        floor = json.dumps({"floor": last["n"], "hash": last["hash"]}).encode()
        part = self.path.with_name(f"{self.path.name}.part")
        descriptor = os.open(
            part, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, stat.S_IRUSR | stat.S_IWUSR
        )
        with os.fdopen(descriptor, "wb") as file:
            file.write(b"".join(line + b"\n" for line in (floor, *lines)))
            file.flush()
            os.fsync(file.fileno())  # before the rename: a crash leaves the old log or the new
        part.replace(self.path)
        if self._file is not None:
            self._file.close()
        self._file = None
        self._open()

    def close(self) -> None:
        """Close the file; another process may write it afterwards."""
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None

    def _write(self, line: bytes) -> None:
        """Append a whole line; if that fails, remove the part that was written."""
        if self._file is None:
            raise AuditError(f"the audit log {str(self.path)!r} is closed", do="open it again")
        # A partial line would break the chain for every later entry, so it is cut off again.
        size = self.path.stat().st_size
        try:
            written = self._file.write(line)
            if written != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            os.ftruncate(self._file.fileno(), size)
            os.fsync(self._file.fileno())  # its rest must not follow later entries
            raise

    def _open(self) -> None:
        try:
            descriptor = os.open(
                self.path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, stat.S_IRUSR | stat.S_IWUSR
            )
        except OSError as error:
            raise AuditError(
                f"the audit log {str(self.path)!r} can't be opened: {error}",
                do="make its folder, or choose another path",
            ) from error
        file = os.fdopen(descriptor, "ab", buffering=0)
        try:
            _lock(file, self.path)
            _cut_lost_end(self.path)
            self._head = verify_audit_log(self.path)
            os.fsync(file.fileno())  # a process that died may not have synced its last entries
            sync_path(self.path.absolute().parent)
            self._durable = self._head.number
        except BaseException:
            file.close()
            raise
        self._file = file


def verify_audit_log(path: str | os.PathLike[str], head: AuditHead | None = None) -> AuditHead:
    """Read a log and check its chain.

    Args:
        path: the file.
        head: an entry that must be in it, e.g. the newest one of yesterday.
    Returns: its newest entry.
    Raises:
        AuditError: a line was changed, whose number the text has; or the entry `head` is missing.
    """
    known, found = AuditHead(0, _START), head is None or head == (0, _START)
    with Path(path).open("rb") as lines:
        for number, line in enumerate(lines, 1):
            floor = _floor(line) if number == 1 else None
            known = floor or _checked(line, number, known)
            found = found or known == head
    if not found:
        raise AuditError(
            f"the audit log {str(path)!r} ends at entry {known.number} and has no entry {head}",
            do="its end was cut off, or it was replaced: look for a backup",
        )
    return known


def _floor(line: bytes) -> AuditHead | None:
    """Return the last entry that was trimmed, if this is the first line of a trimmed log."""
    try:
        entry: Any = json.loads(line)
        return AuditHead(int(entry["floor"]), str(entry["hash"]))
    except (ValueError, KeyError, TypeError):
        return None


def _checked(line: bytes, number: int, before: AuditHead) -> AuditHead:
    """Verify a line and return the head after it.

    Args:
        line: with its newline.
        number: the line's, from 1.
        before: the head before it.
    """
    try:
        entry: Any = json.loads(line)
        digest = entry.pop("hash")
        expected = (before.number + 1, before.hash, _hash(entry))
        fits = (entry["n"], entry["prev"], digest) == expected
    except (ValueError, KeyError, AttributeError, TypeError):
        fits, digest = False, ""
    if not fits or not line.endswith(b"\n"):
        raise AuditError(
            f"line {number} of the audit log was changed after it was written",
            do="compare it with a backup; the lines before it are unchanged",
        )
    return AuditHead(before.number + 1, digest)


def _hash(entry: dict[str, Any]) -> str:
    return sha256(json.dumps(entry, sort_keys=True, ensure_ascii=True).encode()).hexdigest()


def _cut_lost_end(path: Path) -> None:
    """Remove the end that a power cut has left of entries that were never synced.

    Their operations were not carried out, or were reads. The end is an incomplete last line, or
    begins with a line that has a hole, which no later entry knows to be durable.
    """
    data = path.read_bytes()
    lines = data.splitlines(keepends=True)
    size = 0
    for place, line in enumerate(lines):
        if not line.endswith(b"\n") or (has_hole(line) and not _was_durable(lines, place)):
            warn("unacknowledged_end_cut", path=str(path), position=size, bytes=len(data) - size)
            os.truncate(path, size)
            return
        size += len(line)


def _was_durable(lines: list[bytes], place: int) -> bool:
    number = _numbers(lines[place - 1])[0] + 1 if place else 1
    return any(_numbers(later)[1] >= number for later in lines[place + 1 :])


def _numbers(line: bytes) -> tuple[int, int]:
    """Return an entry's number, and the newest number that was durable by then; zeros if none."""
    try:
        entry: Any = json.loads(line)
        number = int(entry.get("n") or entry["floor"])
        return number, number - 1 - int(entry.get("unsynced", 0))
    except (ValueError, KeyError, TypeError, AttributeError):
        return 0, 0


def _lock(file: FileIO, path: Path) -> None:
    """Lock the file against writers of other processes."""
    try:
        locked = try_lock(file.fileno())
    except OSError as error:
        raise AuditError(
            f"the audit log {str(path)!r} can't be locked: {error}",
            do="choose a path on a file system that has locks",
        ) from error
    if not locked:
        raise AuditError(
            f"the audit log {str(path)!r} is in use by another process",
            do="use a separate log for each process",
        )


RUNS_MAX = 100_000
"""Runs whose actor is kept in memory."""


class AuditedSaver(WrappedSaver):
    """Logs every read, save and removal before it is carried out.

    The entries of a batch are on disk before the batch is committed. The entry of a resume lists
    the ids of the answered interrupts, and its actor is the one that answered them. Around a
    `GuardedSaver` it also logs what that refuses, as "denied".

    Args:
        saver: the saver to audit.
        log: the log to append to.
        actor: returns the acting principal; default `current_principal`, that of `acting_as`. All
            saves of a run are logged for the actor that started it.

    Attributes:
        log: as given.
    """

    def __init__(
        self,
        saver: Saver,
        log: AuditLog,
        *,
        actor: Callable[[], str | None] = current_principal,
    ) -> None:
        super().__init__(saver)
        self.log = log
        self._actor = actor
        self._runs: dict[bytes, str | None] = {}
        # This saver is the outermost watch; the wrapped saver's own is asked by it.
        self._inner = self.watch
        self.watch = self

    def handed_over(self, request: Request) -> CheckpointError | None:
        """See `ports.Watch`."""
        actor, op, ids = self._actor_of(request), name_of(request), ids_of(request)
        refused = None if self._inner is None else self._inner.handed_over(request)
        if refused is not None:
            op = f"denied {op}"
        try:
            self.log.append(actor, op, request.thread_id, ids)
        except CheckpointError as error:
            return error
        return refused

    def asked(self, query: Query) -> Query:
        """See `ports.Watch`."""
        where = (getattr(query, "thread_id", None) or "", ids_of(query))
        try:
            wanted = query if self._inner is None else self._inner.asked(query)
        except CheckpointError:
            self.log.append(self._actor(), f"denied {name_of(query)}", *where)
            raise
        self.log.append(self._actor(), name_of(query), *where)
        return wanted

    def answered(self, query: Query, answer: Any) -> Any:
        """See `ports.Watch`."""
        return answer if self._inner is None else self._inner.answered(query, answer)

    async def open(self) -> None:
        """See `ports.Saver.open`."""
        self.log.open()
        await self.saver.open()

    async def commit(self, batch: Sequence[Request]) -> list[CommitOutcome]:
        """See `ports.Saver.commit`."""
        # Flushed before the commit: after a crash there may be an entry without its save, but
        # never a save without its entry.
        await anyio.to_thread.run_sync(self.log.sync)
        return await self.saver.commit(batch)

    def _actor_of(self, request: Request) -> str | None:
        """Return the actor that started the run of a request; without a run, the acting one."""
        if not isinstance(request, Commit) or not request.run:
            return self._actor()
        if request.claim is None and request.run in self._runs:
            actor = self._runs[request.run]
        else:
            actor = self._runs[request.run] = self._actor()
        if request.ends is not None:
            self._runs.pop(request.run, None)
        elif len(self._runs) > RUNS_MAX:  # drop the oldest, of a run that died without an end
            del self._runs[next(iter(self._runs))]
        return actor
