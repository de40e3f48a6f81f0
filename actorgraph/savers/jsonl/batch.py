"""One batch: `judge` decides about each request in order, then lines are added to files.

All lines are written before one sync for each file, the files at the same time. A write that fails
is undone in all of them, so nothing of the batch is stored; a sync that fails closes the saver.
What rewrites a file comes between: the lines before it are durable then.
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
from actorgraph.savers.jsonl.lines import Line, encode_line, line_of
from actorgraph.savers.jsonl.rewriting import keep
from actorgraph.savers.jsonl.system_lines import Forgotten, Said
from actorgraph.savers.jsonl.systems import RunLog, Stage
from actorgraph.savers.judge import ThreadState, answer_rows, branches_off, fence, judge
from actorgraph.values.commits import Commit, CommitOutcome, Committed, LedgerRow, Refused, Request
from actorgraph.values.retention import DeleteThread
from actorgraph.values.systems import SYSTEM_REQUESTS, AdoptRun, SystemRequest


class Draft:
    """The lines that a batch adds to one file."""

    def __init__(self, index: ThreadIndex, folder: Folder) -> None:
        self.index = index
        self.owned: list[Commit] = []
        self.state = _copied(index.state)
        self.state.owner = folder.owners.get(index.thread_id)
        self.added: list[tuple[Line, bytes]] = []
        self._ids: set[tuple[str, bytes]] = set()
        self._rows: set[tuple[object, ...]] = set()

    def commit(self, request: Commit, *, leased: bool = False) -> CommitOutcome:
        """Judge a commit, and make its line.

        Args:
            leased: whether the lease of the thread's owner holds, if that matters.
        """
        before = _copied(self.state)
        self.state.leased = leased
        answered = any(self._has_row(request, row) for row in answer_rows(request))
        base = branches_off(request)
        based = base is None or self._has(request.namespace, base)
        sequence, error = judge(request, self.state, answered=answered, based=based)
        if error is not None:
            return Refused(error)
        ledger = [row for row in request.ledger if not self._has_row(request, row)]
        try:
            line = line_of(request, self.state, sequence, ledger)
            if line.has_rows:
                line.line = len(self.index.starts) + len(self.added) + 1
                self.added.append((line, encode_line(line)))
        except (ValueError, TypeError) as cause:
            self.state = before
            return Refused(_refused(request, cause))
        if request.owner is not None and (request.claim or request.ends):
            self.owned.append(request)
        self._ids.update((request.namespace, row.id) for row in request.checkpoints)
        self._rows.update(_key(request, row) for row in ledger)
        return Committed(sequence + len(request.checkpoints) - 1 if request.checkpoints else 0)

    def _has(self, namespace: str, identifier: bytes) -> bool:
        key = (namespace, identifier)
        return key in self._ids or key in self.index.by_id

    def _has_row(self, request: Commit, row: LedgerRow) -> bool:
        rows = self.index.ledger.get((request.namespace, row.base), {})
        key = (row.task, row.index, row.generation)
        return key in rows or _key(request, row) in self._rows

    @property
    def data(self) -> bytes:
        """What to write at the index's `size`."""
        return b"\n" * self.index.unended + b"".join(text for _, text in self.added)

    def apply(self) -> None:
        """The lines are durable: readers may see them."""
        index = self.index
        start = index.size + index.unended
        index.unended = False
        for line, text in self.added:
            index.add(line, start, start + len(text))
            start += len(text)


def _key(request: Commit, row: LedgerRow) -> tuple[object, ...]:
    return (request.namespace, row.base, row.task, row.index, row.generation)


def _copied(state: ThreadState) -> ThreadState:
    made = copy(state)
    made.heads = dict(state.heads)
    return made


def _refused(request: Commit, cause: Exception) -> StorageError:
    refused = StorageError(
        f"a row of thread {request.thread_id!r} can't be written as JSON: {cause}",
        do="use ids and names that are Unicode text",
    )
    refused.__cause__ = cause
    return refused


def run_batch(
    folder: Folder, files: Files, pool: ThreadPoolExecutor, batch: Sequence[Request]
) -> list[CommitOutcome]:
    """Store a batch durably.

    Args:
        pool: for syncs.
    Returns: one outcome per request. What couldn't be written is refused, and the folder usable.
    Raises:
        SaverBrokenError: what is on the disk is unknown.
    """
    with folder.writing:
        if folder.broken is not None:
            raise folder.broken
        try:
            return _run(folder, files, pool, batch)
        except SaverBrokenError as error:
            folder.broken = error
            folder.forget()
            folder.forget_runs()
            raise


def _run(
    folder: Folder, files: Files, pool: ThreadPoolExecutor, batch: Sequence[Request]
) -> list[CommitOutcome]:
    turn = _Turn(folder, files, pool)
    for request in batch:
        turn.take(request)
    turn.flush()
    return turn.outcomes


class _Turn:
    """A batch on its way: what was accepted, and how far it is stored."""

    def __init__(self, folder: Folder, files: Files, pool: ThreadPoolExecutor) -> None:
        self.outcomes: list[CommitOutcome] = []
        self._folder = folder
        self._files = files
        self._pool = pool
        self._drafts: dict[str, Draft] = {}
        self._lost: dict[bytes | None, BaseException] = {}  # what a run stores after names it
        self._stage: Stage | None = None
        self._said: list[int] = []
        self._flushed = 0

    def take(self, request: Request) -> None:
        """Carry out a request, or note what is to be written."""
        try:
            if isinstance(request, Commit):
                outcome = self._commit(request)
            elif isinstance(request, SYSTEM_REQUESTS):
                outcome = self._say(request)
            else:
                self.flush()
                self._before_keeping(request)
                self.outcomes.append(keep(self._folder, self._files, request))
                self._after_keeping(request)
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
        leased = False
        if request.claim is not None and draft.state.owner is not None:
            leased = self._staged().is_leased(request.thread_id, draft.state.owner)
        outcome = None if request.owner is None else self._staged().refused(request)
        outcome = outcome or draft.commit(request, leased=leased)
        if request.owner is not None and isinstance(outcome, Committed):
            self._staged().accepted(request)
        why = outcome.error if isinstance(outcome, Refused) else None
        if request.run is not None and isinstance(why, StorageError):
            self._lost.setdefault(request.run, why)
        return outcome

    def _say(self, request: SystemRequest) -> CommitOutcome:
        folder, stage = self._folder, self._staged()
        if not isinstance(request, AdoptRun):
            self._said.append(len(self.outcomes))
            return stage.say(request)
        draft = _draft(folder, self._drafts, request.thread_id)
        outcome = stage.say(request)
        self._said.append(len(self.outcomes))
        if isinstance(outcome, Committed) and fence(draft.state, request):
            with folder.reading:
                folder.raised[request.thread_id] = draft.state.epoch
                folder.owners.pop(request.thread_id, None)
        return outcome

    def _runs(self) -> RunLog:
        with self._folder.reading:
            return self._folder.runs()

    def _staged(self) -> Stage:
        if self._stage is None:
            self._stage = self._runs().stage()
        return self._stage

    def flush(self) -> None:
        """Store all that waits: first what systems say, as a run's row comes before its claim."""
        folder, files, start = self._folder, self._files, self._flushed
        if self._stage is not None and self._stage.said:
            self._store(self._stage.said)
        self.outcomes[start:] = _flushed(
            folder, files, self._pool, self._drafts, self.outcomes[start:]
        )
        if self._stage is not None:
            with suppress(StorageError):  # the threads' files have it: it may wait
                self._runs().settle(files, sync=False)
                self._runs().tidy(files)
        self._drafts, self._stage, self._said = {}, None, []
        self._flushed = len(self.outcomes)

    def _store(self, said: list[Said]) -> None:
        log = self._runs()
        try:
            log.store(self._files, said)
        except SaverBrokenError:
            raise
        except StorageError as error:
            for place in self._said:
                if isinstance(self.outcomes[place], Committed):
                    self.outcomes[place] = Refused(error)
            return
        with self._folder.reading:
            log.apply(said)

    def _before_keeping(self, request: Request) -> None:
        """The lines that say how runs have left may go: say it elsewhere first."""
        with self._folder.reading:
            log = self._folder.runs_if_any()
        if log is None:
            return
        if isinstance(request, DeleteThread):
            gone: list[Said] = [Forgotten(request.thread_id)]
            log.store(self._files, gone)
            with self._folder.reading:
                log.apply(gone)
        else:
            log.settle(self._files, sync=True)

    def _after_keeping(self, request: Request) -> None:
        """A thread without a run is nobody's."""
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
    """Store the drafts; the outcomes of their requests, which are refused if that fails."""
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
            draft = drafts[thread_id] = Draft(folder.index(thread_id), folder)
    return draft


def _flush(folder: Folder, files: Files, pool: ThreadPoolExecutor, drafts: list[Draft]) -> None:
    """Write the drafts, sync their files, and let readers see them."""
    drafts = [draft for draft in drafts if draft.added]
    if not drafts:
        return
    opened: list[tuple[Draft, int]] = []
    path = folder.path
    with folder.reading:  # what is remembered of a file may be forgotten before it is synced
        folder.unsynced = {draft.index.thread_id: draft.index for draft in drafts}
    try:
        try:
            for draft in drafts:
                path = draft.index.path
                opened.append((draft, files.create(path)))
                _write(files, *opened[-1])
        except OSError as error:
            _undo(files, opened)
            for draft in drafts:  # somebody may have indexed what is undone
                folder.forget(draft.index.thread_id)
            raise translate(error, path) from error
        _sync(folder, files, pool, opened)
        inodes = [os.fstat(descriptor).st_ino for _, descriptor in opened]
    except BaseException:
        with folder.reading:
            folder.unsynced = {}
        raise
    finally:
        for _, descriptor in opened:
            os.close(descriptor)
    with folder.reading:
        folder.unsynced = {}
        for draft, inode in zip(drafts, inodes, strict=True):
            draft.apply()
            folder.marks.put(Path(draft.index.path).name, inode, draft.index.size)
            folder.remember(draft.index)
            _settle_owner(folder, draft)


def _settle_owner(folder: Folder, draft: Draft) -> None:
    """What durable saves of systems' runs say."""
    thread_id, owner = draft.index.thread_id, draft.state.owner
    if owner is not None:
        folder.owners[thread_id] = owner
    elif folder.owners:
        folder.owners.pop(thread_id, None)
    for commit in draft.owned:
        folder.runs().note(commit)


def _write(files: Files, draft: Draft, descriptor: int) -> None:
    index = draft.index
    size = os.fstat(descriptor).st_size
    if size > index.size:  # the torn end of a save that was never acknowledged
        files.truncate(descriptor, index.size)
        files.sync(descriptor)
    elif size < index.size:
        raise SaverBrokenError(
            f"{index.path!r} has become shorter by {index.size - size} bytes while it was open",
            do="let no other program change the file; close and open the saver again",
        )
    files.write(descriptor, draft.data, index.size)


def _undo(files: Files, opened: list[tuple[Draft, int]]) -> None:
    """Cut off what was written."""
    for draft, descriptor in opened:
        path = draft.index.path
        try:
            if os.fstat(descriptor).st_size > draft.index.size:
                files.truncate(descriptor, draft.index.size)
            if not draft.index.size:
                with suppress(FileNotFoundError):
                    files.remove(path)
        except OSError as error:
            raise broken(error, path) from error


def _sync(
    folder: Folder, files: Files, pool: ThreadPoolExecutor, opened: list[tuple[Draft, int]]
) -> None:
    calls: list[tuple[str, Callable[[], None]]] = [
        (draft.index.path, lambda descriptor=descriptor: files.sync(descriptor))
        for draft, descriptor in opened
    ]
    if any(not draft.index.size for draft, _ in opened):
        calls.append((folder.path, lambda: files.sync_folder(folder.path)))
    waits = [(path, pool.submit(call)) for path, call in calls[1:]]
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
