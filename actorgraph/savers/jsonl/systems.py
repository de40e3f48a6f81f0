"""Runs, events and owners of ActorSystems in a folder: a file of what was said of them, in order.

A folder has one process, so leases and what they fence are in memory: whoever had one in another
process is dead. What a run's own saves say of its status is in its thread's file, in the line of
the save; the file here repeats that later, and what it lacks after a crash is read there.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from actorgraph.errors import CheckpointError, StorageError
from actorgraph.savers.jsonl.files import Files, broken, translate
from actorgraph.savers.jsonl.index import ThreadIndex, damaged
from actorgraph.savers.jsonl.marks import Marks
from actorgraph.savers.jsonl.system_lines import Forgotten, Noted, Said, encoded, entries
from actorgraph.savers.memory_systems import MemorySystems
from actorgraph.savers.systems import is_leased, refusal, refused_claim, refused_row, status_after
from actorgraph.values.commits import Commit, CommitOutcome, Committed, Refused
from actorgraph.values.ids import as_text
from actorgraph.values.systems import (
    OPEN_STATUSES,
    AdoptRun,
    DropOwner,
    OpenRun,
    PutRun,
    RenewOwner,
    RunRow,
    SealRun,
    SetRun,
    StoreEvents,
    SystemRequest,
)

NAME = "systems.log"
_EVERYTHING = 1 << 62
_SLACK = 1000
"""Lines that say nothing any more before the file is written anew."""


class RunLog:
    """The file of a folder, and what it says. Used by the folder's writer; reads hold `reading`.

    Args:
        path: of the file. index: a thread's; for what its saves say of a run.
        marks: the folder's.

    Attributes:
        memory: what is durable, and leases.
    """

    def __init__(self, path: str, index: Callable[[str], ThreadIndex], marks: Marks) -> None:
        self.path = path
        self._marks = marks
        self.memory = MemorySystems()
        self._size = 0
        self._lines = 0
        self._late: list[Said] = []
        self._counts: dict[bytes, int] = {}
        self._unsynced = False
        self._sealed = False
        self._load()
        marks.check(path, self._size)
        self._reconcile(index)

    # --- what a batch says ---

    def stage(self) -> "Stage":
        """For the requests of a batch."""
        return Stage(self.memory)

    def store(self, files: Files, said: list[Said], *, sync: bool = True) -> None:
        """Write what was said, and what saves have said before that; it is not applied.

        Raises:
            StorageError: nothing is written. SaverBrokenError: the outcome is unknown.
        """
        said = [*self._late, *said]
        data = b"".join(encoded(self._lines + n, one) for n, one in enumerate(said, 1))
        is_new = not self._size
        try:
            descriptor = files.create(self.path)
        except OSError as error:
            raise translate(error, self.path) from error
        try:
            self._write(files, descriptor, data)
            self._unsynced = True
            if sync:
                self._sync(files, descriptor)
                if is_new:
                    files.sync_folder(str(Path(self.path).parent))
                self._marks.put(NAME, os.fstat(descriptor).st_ino, self._size + len(data))
        finally:
            os.close(descriptor)
        self._size += len(data)
        self._lines += len(said)
        self._late = []

    def _write(self, files: Files, descriptor: int, data: bytes) -> None:
        try:
            if os.fstat(descriptor).st_size != self._size:  # the torn end of a write
                files.truncate(descriptor, self._size)
            files.write(descriptor, data, self._size)
        except OSError as error:
            try:
                files.truncate(descriptor, self._size)
            except OSError as second:
                raise broken(second, self.path) from second
            raise translate(error, self.path) from error

    def _sync(self, files: Files, descriptor: int) -> None:
        try:
            files.sync(descriptor)
        except OSError as error:
            raise broken(error, self.path) from error
        self._unsynced = False

    def apply(self, said: list[Said]) -> None:
        """What was said is durable: readers may see it. Under `reading`."""
        for one in said:
            self._apply(one)
            self._sealed = self._sealed or isinstance(one, SealRun)

    def note(self, commit: Commit) -> None:
        """An owned run's save is durable in its thread's file. Under `reading`."""
        self.memory.committed(commit)
        if commit.run is not None:
            self._late.append(self._noted(commit.run, commit.ends, commit.claim is not None))

    def _noted(self, run: bytes, ends: str | None, claimed: bool) -> Noted:
        count = self._counts[run] = self._counts.get(run, 0) + 1
        return Noted(run, count, claimed, ends)

    def settle(self, files: Files, *, sync: bool) -> None:
        """Write what saves have said; they are lost with their thread's lines otherwise.

        Args:
            sync: whether those lines may go now.
        """
        if self._late or (sync and self._unsynced):
            self.store(files, [], sync=sync)

    def tidy(self, files: Files) -> None:
        """Write the file anew if it must hold nothing sealed before, or has grown for nothing."""
        if self._sealed or self._lines > 2 * self.memory.count + _SLACK:
            self._rewrite(files)
            self._sealed = False

    # --- the file ---

    def _apply(self, said: Said) -> None:
        if isinstance(said, Noted):
            self._counts[said.run] = said.count
            self.memory.noted(said.run, claimed=said.claimed, ends=said.ends)
        elif isinstance(said, Forgotten):
            self.memory.forget_thread(said.thread_id)
        else:
            self.memory.apply(said)

    def _load(self) -> None:
        with suppress(FileNotFoundError), Path(self.path).open("rb") as file:
            for text in file:
                if not text.endswith(b"\n"):
                    return  # the torn end of what was never acknowledged
                try:
                    self._apply(entries(text, self._lines + 1))
                except ValueError as error:
                    raise damaged(self.path, self._lines + 1, self._size, error) from error
                self._size += len(text)
                self._lines += 1

    def _reconcile(self, index: Callable[[str], ThreadIndex]) -> None:
        """What the newest saves of open runs say, as their threads' files have it."""
        for row in [row for row in self.memory.in_order() if row.status in OPEN_STATUSES]:
            text, known = as_text(row.run), self._counts.get(row.run, 0)
            with suppress(CheckpointError, OSError):  # whoever takes the run up meets it
                for line in index(row.thread_id).lines():
                    if line.run != text or (line.claim is None and line.ends is None):
                        continue
                    if known:
                        known -= 1
                        continue
                    noted = self._noted(row.run, line.ends, line.claim is not None)
                    self._apply(noted)
                    self._late.append(noted)

    def _rewrite(self, files: Files) -> None:
        temporary = str(Path(self.path).with_name(f".{NAME}.tmp"))
        said = list(self._whole())
        data = b"".join(encoded(number, one) for number, one in enumerate(said, 1))
        try:
            descriptor = files.create(temporary)
            try:
                os.ftruncate(descriptor, 0)
                files.write(descriptor, data, 0)
                files.sync(descriptor)
            finally:
                os.close(descriptor)
            files.rename(temporary, self.path)
        except OSError as error:
            with suppress(OSError):
                files.remove(temporary)
            raise translate(error, self.path) from error
        self._size, self._lines, self._late, self._unsynced = len(data), len(said), [], False
        try:
            files.sync_folder(str(Path(self.path).parent))
        except OSError as error:
            raise broken(error, self.path) from error

    def _whole(self) -> Iterator[Said]:
        for row in self.memory.in_order():
            yield PutRun(row, row.thread_id)
            if row.run in self._counts:
                yield Noted(row.run, self._counts[row.run])
            events = self.memory.events(row.run)
            if events:
                owner = row.owner or b""
                yield StoreEvents(row.run, row.thread_id, owner, events, _EVERYTHING, 0)


class Stage:
    """The requests of one batch, judged in order; nothing of them is stored yet.

    Attributes:
        said: what was accepted and is to be stored.
    """

    def __init__(self, memory: MemorySystems) -> None:
        self._memory = memory
        self._owners: dict[bytes, bytes | None] = {}
        self._put: dict[str, list[RunRow]] = {}
        self._begun: set[bytes] = set()
        self._left: set[bytes] = set()
        self.said: list[Said] = []

    def say(self, request: SystemRequest) -> CommitOutcome:
        """Take in a request, or refuse it."""
        if isinstance(request, RenewOwner | DropOwner):
            return self._memory.apply(request)
        if isinstance(request, SetRun | AdoptRun | StoreEvents):
            known, owner = self._owner(request.run)
            refused = refusal(request, owner, known=known)
            if refused is not None:
                return Refused(refused)
        if isinstance(request, PutRun):
            busy = refused_row(request, self._open_runs(request.thread_id))
            if busy is not None:
                return Refused(busy)
            # It was decided: whoever reads the file must not decide it again.
            request = PutRun(request.row, request.thread_id, request.size)
        try:
            encoded(1, request)
        except (ValueError, TypeError) as cause:
            return Refused(_refused(request, cause))
        self._note(request)
        self.said.append(request)
        return Committed()

    def _note(self, request: SystemRequest) -> None:
        """Remember what later requests of the batch are judged by."""
        if isinstance(request, PutRun) and not self._owner(request.row.run)[0]:
            self._owners[request.row.run] = request.row.owner
            self._put.setdefault(request.thread_id, []).append(request.row)
        elif isinstance(request, AdoptRun):
            self._owners[request.run] = request.owner
        elif isinstance(request, SetRun) and request.status not in OPEN_STATUSES:
            self._left.add(request.run)

    def accepted(self, commit: Commit) -> None:
        """A run's own save, in this batch, may have begun it, or ended it."""
        if commit.run is None:
            return
        if commit.claim is not None:
            self._begun.add(commit.run)
        if commit.ends is not None and status_after(commit.ends) not in OPEN_STATUSES:
            self._left.add(commit.run)

    def refused(self, commit: Commit) -> Refused | None:
        """The refusal of a claim whose run another system has, or comes before."""
        known, owner = self._owner(commit.run or b"")
        others = self._open_runs(commit.thread_id) if commit.claim is not None else ()
        error = refused_claim(commit, owner, known=known, others=others)
        return None if error is None else Refused(error)

    def is_leased(self, thread_id: str, owner: bytes) -> bool:
        """Whether a thread's owner has it still: its lease holds, and its run has not left."""
        return self._memory.is_alive(owner) and is_leased(owner, self._open_runs(thread_id))

    def _open_runs(self, thread_id: str) -> list[OpenRun]:
        found = self._memory.open_runs(thread_id)
        for row in self._put.get(thread_id, ()):
            found.append(OpenRun(row.run, row.owner, row.claimed, self._memory.is_alive(row.owner)))
        return [
            msgspec.structs.replace(
                one,
                owner=self._owners.get(one.run, one.owner),
                claimed=one.claimed or one.run in self._begun,
            )
            for one in found
            if one.run not in self._left
        ]

    def _owner(self, run: bytes) -> tuple[bool, bytes | None]:
        if run in self._owners:
            return True, self._owners[run]
        return self._memory.owner_of(run)


def _refused(request: SystemRequest, cause: Exception) -> StorageError:
    refused = StorageError(
        f"what a system says of thread {request.thread_id!r} can't be written as JSON: {cause}",
        do="use ids, names and reasons that are Unicode text",
    )
    refused.__cause__ = cause
    return refused
