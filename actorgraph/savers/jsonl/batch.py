"""Store one batch: judge each request in order, append lines to files, sync them.

Order      all lines are written before the first sync; then one sync per file, in parallel
Fails      a failed write is undone in all files, and nothing of the batch is stored;
           a failed sync breaks the saver, as the disk's content is unknown (see `files`)
Rewrites   requests that rewrite a file (removals, copies) come after a flush, so that the lines
           of earlier requests are durable before their file is replaced
Visible    readers see a line only after its sync: `Draft.apply` puts it into the index
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from copy import copy
from pathlib import Path

from actorgraph.errors import CheckpointError, SaverBrokenError, StorageError
from actorgraph.savers.jsonl.files import Files, broken, translate
from actorgraph.savers.jsonl.folder import Folder
from actorgraph.savers.jsonl.index import ThreadIndex
from actorgraph.savers.jsonl.retention import apply_retention
from actorgraph.savers.jsonl.schema import (
    FORMAT,
    Forgotten,
    Line,
    SystemRecord,
    encode_line,
    line_of,
)
from actorgraph.savers.jsonl.systems import RunLog, Stage
from actorgraph.savers.judge import ThreadState, answer_rows, branch_base, fence, judge
from actorgraph.storage.logged_problems import warn
from actorgraph.values.alarms import Alarm, TakeAlarm
from actorgraph.values.commits import Commit, CommitOutcome, Committed, LedgerRow, Refused, Request
from actorgraph.values.retention import DeleteThread
from actorgraph.values.systems import SYSTEM_REQUESTS, AdoptRun, SystemRequest
from actorgraph.values.thread_rows import THREAD_REQUESTS


class Draft:
    """The lines that a batch adds to one file.

    Attributes:
        index: of the file as it is durable; unchanged until `apply`.
        system_commits: accepted claims and ends of ActorSystems' runs.
        state: the thread's state after the accepted requests.
        alarm: the thread's alarm after the accepted requests.
        added: lines and their bytes.
    """

    def __init__(self, index: ThreadIndex, folder: Folder) -> None:
        self.index = index
        self.system_commits: list[Commit] = []
        # `judge` changes the state. A copy, so that a batch that fails leaves the index as
        # it was.
        self.state = _copied(index.state)
        self.state.owner = folder.owners.get(index.thread_id)
        self.alarm = index.alarm
        self.added: list[tuple[Line, bytes]] = []
        self._ids: set[tuple[str, bytes]] = set()
        self._rows: set[tuple[object, ...]] = set()

    def commit(self, request: Commit, *, leased: bool = False) -> CommitOutcome:
        """Judge a commit, and add its line if it is accepted.

        Args:
            leased: whether the lease of the thread's owner is valid.
        """
        before = _copied(self.state)
        self.state.leased = leased
        answered = any(self._has_row(request, row) for row in answer_rows(request))
        base = branch_base(request)
        based = base is None or self._has(request.namespace, base)
        sequence, error = judge(request, self.state, answered=answered, based=based)
        if error is not None:
            return Refused(error)
        # Writes are insert-or-ignore: a task that is repeated after a crash doesn't store twice.
        ledger = [row for row in request.ledger if not self._has_row(request, row)]
        try:
            # Encode now: text that JSON can't hold must refuse this request, not the batch.
            line = line_of(request, self.state, sequence, ledger)
            alarm = _alarm_after(line, self.alarm)
            if alarm == self.alarm:
                line.alarm = None
            if line.has_rows:
                self._add(line)
        except (ValueError, TypeError) as cause:
            self.state = before
            return Refused(_refused(request, cause))
        self.alarm = alarm
        if request.owner is not None and (request.claim or request.ends):
            self.system_commits.append(request)
        self._ids.update((request.namespace, row.id) for row in request.checkpoints)
        self._rows.update(_key(request, row) for row in ledger)
        return Committed(sequence + len(request.checkpoints) - 1 if request.checkpoints else 0)

    def take_alarm(self, request: TakeAlarm) -> Committed:
        """Move the alarm, by a line of its own, if it has the time that the request names."""
        if self.alarm is None or self.alarm.at != request.was:
            return Committed()
        alarm = Alarm(request.at, self.alarm.graph)
        self.alarm = alarm if alarm.at else None
        self._add(Line(FORMAT, request.thread_id, 0, self.state.epoch, alarm=alarm))
        return Committed(1)

    def _add(self, line: Line) -> None:
        line.line = len(self.index.starts) + len(self.added) + 1
        line.unsynced = line.line - 1 - self.index.durable
        self.added.append((line, encode_line(line)))

    def _has(self, namespace: str, identifier: bytes) -> bool:
        key = (namespace, identifier)
        return key in self._ids or key in self.index.by_id

    def _has_row(self, request: Commit, row: LedgerRow) -> bool:
        rows = self.index.ledger.get((request.namespace, row.base), {})
        key = (row.task, row.index, row.generation)
        return key in rows or _key(request, row) in self._rows

    @property
    def data(self) -> bytes:
        """The bytes to write at the index's `size`."""
        # A crash may have cut just the newline of the last line, which then counts as stored.
        return b"\n" * self.index.unended + b"".join(text for _, text in self.added)

    def apply(self) -> None:
        """Add the lines, which are durable now, to the index that readers use."""
        index = self.index
        start = index.size + index.unended
        index.unended = False
        for line, text in self.added:
            index.add(line, start, start + len(text))
            start += len(text)
        index.durable = len(index.starts)


def _key(request: Commit, row: LedgerRow) -> tuple[object, ...]:
    return (request.namespace, row.base, row.task, row.index, row.generation)


def _alarm_after(line: Line, alarm: Alarm | None) -> Alarm | None:
    """The thread's alarm after a line, given the one before."""
    if line.alarm is None:
        return alarm
    return line.alarm if line.alarm.at else None


def _copied(state: ThreadState) -> ThreadState:
    copied = copy(state)
    copied.heads = dict(state.heads)
    return copied


def _refused(request: Commit, cause: Exception) -> StorageError:
    refused = StorageError(
        f"a row of thread {request.thread_id!r} can't be written as JSON: {cause}",
        do="use ids and names that are Unicode text",
    )
    refused.__cause__ = cause
    return refused


def run_batch(
    folder: Folder,
    files: Files,
    pool: ThreadPoolExecutor,
    batch: Sequence[Request],
    place: str = "",
) -> list[CommitOutcome]:
    """Store a batch durably.

    Args:
        pool: runs syncs in parallel.
        place: the path under which the saver has opened the folder; default the folder's own.
    Returns: one outcome per request, in order. A request that couldn't be written is refused, and
        the folder stays usable.
    Raises:
        SaverBrokenError: it is unknown what the disk holds.
    """
    with folder.writing:
        if folder.broken is not None:
            raise folder.broken
        try:
            # Before, so that nothing is changed that belongs to others by now; and after, so that
            # nothing is acknowledged that went to a folder without its name, or without its lock.
            folder.check_place(place)
            outcomes = _run(folder, files, pool, batch)
            folder.check_place(place)
        except SaverBrokenError as error:
            folder.broken = error
            # Indexes may describe lines that never reached the disk: read the files again.
            folder.forget()
            folder.forget_runs()
            folder.marks.trust_files()
            raise
        return outcomes


def _run(
    folder: Folder, files: Files, pool: ThreadPoolExecutor, batch: Sequence[Request]
) -> list[CommitOutcome]:
    writer = _BatchWriter(folder, files, pool)
    for request in batch:
        writer.take(request)
    writer.flush()
    return writer.outcomes


class _BatchWriter:
    """Accepted requests of one batch, and how many of them are flushed.

    Attributes:
        outcomes: of the requests taken so far; those before `_flushed` are final.
    """

    def __init__(self, folder: Folder, files: Files, pool: ThreadPoolExecutor) -> None:
        self.outcomes: list[CommitOutcome] = []
        self._folder = folder
        self._files = files
        self._pool = pool
        self._drafts: dict[str, Draft] = {}
        # Runs with a refused row. Their later commits of the batch name its checkpoint, which is
        # missing now, so they are refused too.
        self._lost: dict[bytes | None, BaseException] = {}
        self._stage: Stage | None = None
        self._system_places: list[int] = []  # positions of system requests in `outcomes`
        self._flushed = 0

    def take(self, request: Request) -> None:
        """Collect what a request writes; a request that rewrites a file is carried out at once."""
        try:
            if isinstance(request, Commit):
                if request.alarm is not None and request.alarm.at:
                    self._folder.note_alarms(self._files)
                outcome = self._commit(request)
            elif isinstance(request, SYSTEM_REQUESTS):
                outcome = self._take_system_request(request)
            elif isinstance(request, TakeAlarm):
                draft = _draft(self._folder, self._drafts, request.thread_id)
                outcome = draft.take_alarm(request)
            else:
                assert not isinstance(request, THREAD_REQUESTS), "it has no index of threads"
                self.flush()
                self._before_retention(request)
                self.outcomes.append(apply_retention(self._folder, self._files, request))
                self._after_retention(request)
                self._flushed = len(self.outcomes)
                return
        except SaverBrokenError:
            raise
        except CheckpointError as error:
            outcome = Refused(error)
        self.outcomes.append(outcome)

    def _commit(self, request: Commit) -> CommitOutcome:
        error = self._lost.get(request.run)
        draft = _draft(self._folder, self._drafts, request.thread_id)
        if error is not None:
            return Refused(error)
        # The file of runs is read only where an ActorSystem uses the thread.
        leased = False
        if request.claim is not None and draft.state.owner is not None:
            leased = self._current_stage().is_leased(request.thread_id, draft.state.owner)
        outcome = None if request.owner is None else self._current_stage().claim_refusal(request)
        outcome = outcome or draft.commit(request, leased=leased)
        if request.owner is not None and isinstance(outcome, Committed):
            self._current_stage().add_commit(request)
        failure = outcome.error if isinstance(outcome, Refused) else None
        if request.run is not None and isinstance(failure, StorageError):
            self._lost.setdefault(request.run, failure)
        return outcome

    def _take_system_request(self, request: SystemRequest) -> CommitOutcome:
        folder, stage = self._folder, self._current_stage()
        if not isinstance(request, AdoptRun):
            self._system_places.append(len(self.outcomes))
            return stage.take(request)
        draft = _draft(folder, self._drafts, request.thread_id)
        outcome = stage.take(request)
        self._system_places.append(len(self.outcomes))
        # The raised epoch is kept in memory only. The lock on the folder makes that enough: the
        # run that it fences off can only be in this process, and memory ends with it.
        if isinstance(outcome, Committed) and fence(draft.state, request):
            with folder.reading:
                folder.raised[request.thread_id] = draft.state.epoch
                folder.owners.pop(request.thread_id, None)
        return outcome

    def _runs(self) -> RunLog:
        with self._folder.reading:
            return self._folder.runs()

    def _current_stage(self) -> Stage:
        if self._stage is None:
            log = self._runs()
            log.check_file()
            self._stage = log.stage()
        return self._stage

    def flush(self) -> None:
        """Store the collected lines: the file of runs first, then the threads' files."""
        folder, files, start = self._folder, self._files, self._flushed
        # A crash between the two leaves a run without a claim, which is pending and can be
        # started. The other order could leave a claim of a run that no system knows.
        if self._stage is not None and self._stage.records:
            self._store_records(self._stage.records)
        self.outcomes[start:] = _flushed(
            folder, files, self._pool, self._drafts, self.outcomes[start:]
        )
        if self._stage is not None:
            # Notes repeat what the threads' files hold, so they need no sync, and a failure here
            # loses nothing: they are written with the next batch, or read from those files.
            with suppress(StorageError):
                self._runs().write_notes(files, sync=False)
                self._runs().compact(files)
        self._drafts, self._stage, self._system_places = {}, None, []
        self._flushed = len(self.outcomes)

    def _store_records(self, records: list[SystemRecord]) -> None:
        log = self._runs()
        try:
            log.store(self._files, records)
        except SaverBrokenError:
            raise
        except StorageError as error:
            for place in self._system_places:
                if isinstance(self.outcomes[place], Committed):
                    self.outcomes[place] = Refused(error)
            return
        with self._folder.reading:
            log.apply(records)

    def _before_retention(self, request: Request) -> None:
        """Make the file of runs complete before lines of a thread's file are removed.

        The lines that go may be the only ones that say how a run has ended.
        """
        with self._folder.reading:
            log = self._folder.runs_if_any()
        if log is None:
            return
        if isinstance(request, DeleteThread):
            gone: list[SystemRecord] = [Forgotten(request.thread_id)]
            log.store(self._files, gone)
            with self._folder.reading:
                log.apply(gone)
        else:
            log.write_notes(self._files, sync=True)

    def _after_retention(self, request: Request) -> None:
        """Drop the thread's owner if the removal has ended its run."""
        folder, thread_id = self._folder, request.thread_id
        if thread_id in folder.owners:
            with folder.reading:
                if folder.index(thread_id).state.run is None:
                    folder.owners.pop(thread_id, None)


def _flushed(
    folder: Folder,
    files: Files,
    pool: ThreadPoolExecutor,
    drafts: dict[str, Draft],
    outcomes: list[CommitOutcome],
) -> list[CommitOutcome]:
    """Store the drafts; return their requests' outcomes, refused if that fails."""
    try:
        _flush(folder, files, pool, list(drafts.values()))
    except SaverBrokenError:
        raise
    except StorageError as error:
        return [Refused(error) if isinstance(o, Committed) else o for o in outcomes]
    return outcomes


def _draft(folder: Folder, drafts: dict[str, Draft], thread_id: str) -> Draft:
    draft = drafts.get(thread_id)
    if draft is None:
        with folder.reading:
            index = folder.index(thread_id)
        index.check_file()
        draft = drafts[thread_id] = Draft(index, folder)
    return draft


def _flush(folder: Folder, files: Files, pool: ThreadPoolExecutor, drafts: list[Draft]) -> None:
    """Write the drafts, sync their files, and let readers see them."""
    drafts = [draft for draft in drafts if draft.added]
    if not drafts:
        return
    opened: list[tuple[Draft, int]] = []
    path = folder.path
    # A reader that indexes one of these files now would also see lines that are not synced and
    # may be undone. Until the sync readers get the index from here, because the cache may drop it.
    with folder.reading:
        folder.unsynced = {draft.index.thread_id: draft.index for draft in drafts}
    try:
        try:
            for draft in drafts:
                path = draft.index.path
                opened.append((draft, files.create(path)))
                _write(files, *opened[-1])
        except OSError as error:
            _undo(files, opened)
            for draft in drafts:
                folder.forget(draft.index.thread_id)
            raise translate(error, path) from error
        _sync(folder, files, pool, opened)
        # By descriptor, while it is open: a path could name another file by now.
        inodes = [os.fstat(descriptor).st_ino for _, descriptor in opened]
    except BaseException:
        with folder.reading:
            folder.unsynced = {}
        raise
    finally:
        for _, descriptor in opened:
            os.close(descriptor)
    # All files become visible together, under one lock: a reader never sees half of a batch.
    with folder.reading:
        folder.unsynced = {}
        for draft, inode in zip(drafts, inodes, strict=True):
            draft.apply()
            draft.index.inode, draft.index.tail = inode, 0
            folder.marks.put(Path(draft.index.path).name, inode, draft.index.size)
            folder.remember(draft.index)
            _apply_system_commits(folder, draft)


def _apply_system_commits(folder: Folder, draft: Draft) -> None:
    """Update owners and runs from commits that are durable now."""
    thread_id, owner = draft.index.thread_id, draft.state.owner
    if owner is not None:
        folder.owners[thread_id] = owner
    elif folder.owners:
        folder.owners.pop(thread_id, None)
    for commit in draft.system_commits:
        folder.runs().note(commit)


def _write(files: Files, draft: Draft, descriptor: int) -> None:
    index = draft.index
    size = os.fstat(descriptor).st_size
    if size > index.size:
        # The torn end of a save that was never acknowledged. Cut it and sync before writing: after
        # a crash its rest must not follow the new lines.
        files.truncate(descriptor, index.size)
        files.sync(descriptor)
        warn(
            "unacknowledged_end_cut", path=index.path, position=index.size, bytes=size - index.size
        )
    elif size < index.size:
        raise SaverBrokenError(
            f"{index.path!r} was shortened by {index.size - size} bytes while it was open",
            do="don't let other programs change the file; close and open the saver again",
        )
    files.write(descriptor, draft.data, index.size)


def _undo(files: Files, opened: list[tuple[Draft, int]]) -> None:
    """Cut the files back to their size before the batch.

    Raises:
        SaverBrokenError: one can't be cut, and may hold lines of requests that are refused.
    """
    for draft, descriptor in opened:
        path = draft.index.path
        try:
            if os.fstat(descriptor).st_size > draft.index.size:
                files.truncate(descriptor, draft.index.size)
                files.sync(descriptor)  # after a power cut its rest must not follow later lines
            if not draft.index.size:
                with suppress(FileNotFoundError):
                    files.remove(path)
        except OSError as error:
            raise broken(error, path) from error


def _sync(
    folder: Folder, files: Files, pool: ThreadPoolExecutor, opened: list[tuple[Draft, int]]
) -> None:
    """Sync the files in parallel, one of them in this thread.

    Raises:
        SaverBrokenError: a sync failed.
    """
    calls: list[tuple[str, Callable[[], None]]] = [
        (draft.index.path, lambda descriptor=descriptor: files.sync(descriptor))
        for draft, descriptor in opened
    ]
    # A new file is durable only when its name in the folder is.
    if any(not draft.index.size for draft, _ in opened):
        calls.append((folder.path, lambda: files.sync_folder(folder.path)))
    waits = [(path, pool.submit(call)) for path, call in calls[1:]]
    # Wait for all of them even after a failure: the caller closes the descriptors.
    failures: list[tuple[str, OSError]] = []
    try:
        calls[0][1]()
    except OSError as error:
        failures.append((calls[0][0], error))
    for path, wait in waits:
        error = wait.exception()
        if isinstance(error, OSError):
            failures.append((path, error))
        elif error is not None:
            raise error
    for path, error in failures:
        raise broken(error, path) from error
