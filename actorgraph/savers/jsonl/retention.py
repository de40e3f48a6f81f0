"""Copies, removals and re-encryption: write a new file beside the old one, then rename it.

Until the rename the old file is untouched, so a crash or a full disk changes nothing. The folder's
one writer does it, so no save comes in between. A file that would have no line is removed.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import msgspec

from actorgraph.codec.records import frames
from actorgraph.errors import CheckpointError, StorageError
from actorgraph.savers.jsonl.files import Files, broken, translate
from actorgraph.savers.jsonl.folder import TEMPORARY, Folder
from actorgraph.savers.jsonl.index import ThreadIndex
from actorgraph.savers.jsonl.schema import (
    Line,
    ValueEntry,
    encode_line,
    payload_of,
    raw_of,
    raw_text,
    text_of,
)
from actorgraph.savers.judge import refused_copy
from actorgraph.savers.retention import RemovalPlan, RetentionPoint, held_whole, plan_removal
from actorgraph.values.commits import CommitOutcome, Committed, Refused
from actorgraph.values.ids import as_bytes, as_text
from actorgraph.values.retention import (
    CopyThread,
    DeleteThread,
    HoldWhole,
    Removal,
    Reseal,
    Resealer,
    Vacuum,
)


def resealed_line(line: Line, resealer: Resealer) -> Line:
    """Re-encrypt the payloads of a line, in place; return it.

    Raises:
        EncryptionError: a payload can't be decrypted.
    """
    namespace = line.namespace
    for value in line.values:
        payload = payload_of(value.value)
        resealed = resealer.value(namespace, value.channel, value.version, payload)
        value.value = raw_of(resealed)
    for part in line.lists:
        if part.items:
            where = (namespace, part.channel, part.lineage, part.position)
            part.items = [raw_of(p) for p in frames(resealer.items(*where, part.payload))]
    for entry in line.ledger:
        entry.writes = raw_of(resealer.writes(namespace, entry.row))
    claim = line.claim
    if claim is not None and line.run is not None:
        run = as_bytes(line.run)
        claim.input = [raw_of(resealer.input(run, payload_of(raw))) for raw in claim.input]
    return line


_CHUNK = 1 << 20
Change = Callable[[Line], Line]


def apply_retention(
    folder: Folder,
    files: Files,
    request: DeleteThread | CopyThread | Removal | HoldWhole | Reseal | Vacuum,
) -> CommitOutcome:
    """Carry out a request that copies, removes or re-encrypts a thread's rows.

    Raises:
        StorageError: nothing has changed: the file is damaged, or the disk is full.
        SaverBrokenError: the outcome is unknown.
    """
    # Rewritten files hold no deleted rows already; only the epochs of deleted threads are left.
    if isinstance(request, Vacuum):
        folder.epochs.clear()
        folder.forget()
        return Committed()
    try:
        if isinstance(request, CopyThread):
            return _copy(folder, files, request)
        if isinstance(request, DeleteThread):
            return _delete(folder, files, request)
        with folder.reading:
            index = folder.index(request.thread_id)
        if not index.starts:
            return Committed()
        if isinstance(request, HoldWhole):
            return _hold(folder, files, request, index)
        if isinstance(request, Reseal):
            _rewrite(folder, files, index, partial(resealed_line, resealer=request.resealer))
            return Committed()
        return _remove(folder, files, request, index)
    except StorageError:
        raise
    except CheckpointError as error:  # the resealer can't decrypt a payload
        return Refused(error)


def _delete(folder: Folder, files: Files, request: DeleteThread) -> CommitOutcome:
    with folder.reading:
        try:
            index = folder.index(request.thread_id)
        except StorageError:  # a damaged file can be deleted without reading it
            path = folder.file(request.thread_id)
            index = ThreadIndex(request.thread_id, path, folder.epochs.get(request.thread_id, 1))
    if index.starts or Path(index.path).exists():
        _remove_file(folder, files, index, index.state.epoch + 1)
    return Committed(removed=len(index.places))


def _copy(folder: Folder, files: Files, request: CopyThread) -> CommitOutcome:
    with folder.reading:
        source, target = folder.index(request.source), folder.index(request.thread_id)
    if target.places:
        return Refused(refused_copy(request))
    if not source.places:
        return Committed()
    epoch = target.state.epoch

    def change(line: Line) -> Line:
        if request.resealer is not None:
            line = resealed_line(line, request.resealer)
        return msgspec.structs.replace(
            line, thread_id=request.thread_id, epoch=epoch, claim=None, ends=None, alarm=None
        )

    _rewrite(folder, files, source, change, target)
    return Committed()


def _hold(folder: Folder, files: Files, request: HoldWhole, index: ThreadIndex) -> CommitOutcome:
    place = index.by_id.get((request.namespace, request.id))
    if place is None:
        return Committed()

    def change(line: Line) -> Line:
        if line.line != place.line:
            return line
        point = line.checkpoints[place.at]
        held = held_whole(request, text_of(point.record))
        if held is None:
            return line
        text, blobs = held
        point.record = raw_text(text)
        line.values.extend(ValueEntry(b.channel, b.version, raw_of(b.payload)) for b in blobs)
        return line

    _rewrite(folder, files, index, change)
    return Committed()


def _remove(folder: Folder, files: Files, request: Removal, index: ThreadIndex) -> CommitOutcome:
    state = index.state
    plan = plan_removal(request, list(_points(index)), state.run)
    if not (plan.clears or plan.stops):
        return Committed()
    run = None if plan.stops else state.run
    epoch = state.epoch + plan.stops
    # A thread of which nothing is left has no questions, and its file goes.
    empties = run is None and len(plan.gone) == len(index.places)

    def change(line: Line) -> Line:
        if line.claim is not None and (run is None or line.line != index.run_line):
            line.claim = None
        if empties:
            line.alarm = None
        line.epoch = epoch
        return _trimmed(line, plan, index, going_on=run is not None) if plan.clears else line

    rewritten = _rewrite(folder, files, index, change, epoch=epoch)
    freed = index.row_count - rewritten.row_count if plan.kept is not None else 0
    return Committed(removed=len(plan.gone), freed=freed)


def _points(index: ThreadIndex) -> Iterator[RetentionPoint]:
    for line in index.lines():
        for point in line.checkpoints:
            row = point.row
            texts = (row.metadata, row.record)
            yield RetentionPoint(
                line.namespace, point.sequence, row.id, row.parent, row.run, *texts
            )


def _trimmed(line: Line, plan: RemovalPlan, index: ThreadIndex, *, going_on: bool) -> Line:
    """Remove rows from a line, in place; return it.

    Args:
        going_on: whether the thread's open run keeps its claim.
    """
    namespace = line.namespace
    gone = {point.sequence for point in plan.gone if point.namespace == namespace}
    parents = {p.sequence: parent for p, parent in plan.parents if p.namespace == namespace}
    line.checkpoints = [p for p in line.checkpoints if p.sequence not in gone]
    for point in line.checkpoints:
        if point.sequence in parents:
            parent = parents[point.sequence]
            point.parent = None if parent is None else as_text(parent)
    line.values = [v for v in line.values if (namespace, v.channel, v.version) in plan.blobs]
    # While a run is open its next checkpoint may name list rows that no stored checkpoint names.
    if not going_on:
        line.lists = [
            part
            for part in line.lists
            if index.row_start(namespace, part)
            < plan.lists.get((namespace, part.channel, part.lineage), 0)
        ]
    keys = ((namespace, as_bytes(entry.base)) for entry in line.ledger)
    line.ledger = [
        entry
        for entry, key in zip(line.ledger, keys, strict=True)
        if key not in plan.ledgers and (plan.kept is None or key in plan.kept)
    ]
    # The claim is gone, so the run's end goes too. With an open run the ends of earlier ones stay:
    # they precede its claim, so they don't end it.
    if line.claim is None and not going_on:
        line.ends = None
    return line


def _rewrite(
    folder: Folder,
    files: Files,
    source: ThreadIndex,
    change: Change,
    target: ThreadIndex | None = None,
    *,
    epoch: int = 0,
) -> ThreadIndex:
    """Write a file of changed lines, and replace a thread's file by it.

    Args:
        source: index of the file to read.
        change: returns a changed line; lines without rows are left out.
        target: index of the file to replace; default `source`.
        epoch: the thread's epoch if no line is left; default the target's.
    Returns: the new index.
    Raises:
        StorageError: the target is unchanged.
        SaverBrokenError: the outcome is unknown.
    """
    target, path = target or source, Path((target or source).path)
    rewritten = ThreadIndex(target.thread_id, target.path, epoch or target.state.epoch)
    target.check_file()
    temporary = str(path.with_name(f".{path.name}{TEMPORARY}"))
    try:
        _write(files, temporary, source, change, rewritten)
        if not rewritten.starts:
            files.remove(temporary)
            _remove_file(folder, files, target, rewritten.state.epoch)
            return rewritten
        # One lock around the rename and the new index: readers never combine the index of one
        # file with the lines of the other.
        folder.marks.drop(path.name)
        with folder.reading:
            files.rename(temporary, target.path)
            folder.remember(rewritten)
            if not target.starts:  # a new thread becomes visible when its name is durable
                folder.unsynced = {target.thread_id: target}
    except OSError as error:
        with suppress(OSError):
            files.remove(temporary)
        raise translate(error, target.path) from error
    try:
        _sync_names(folder, files)
    finally:
        with folder.reading:
            folder.unsynced = {}
    folder.marks.put(path.name, rewritten.inode, rewritten.size)
    return rewritten


def _write(
    files: Files, temporary: str, source: ThreadIndex, change: Change, rewritten: ThreadIndex
) -> None:
    descriptor = files.create(temporary)
    try:
        os.ftruncate(descriptor, 0)
        waiting, written = bytearray(), 0
        for old in source.lines():
            if old.line != source.alarm_line:
                old.alarm = None  # a later line has replaced it
            line = change(old)
            if not line.has_rows:
                continue
            line.line, line.unsynced = len(rewritten.starts) + 1, 0
            text = encode_line(line)
            start = written + len(waiting)
            rewritten.add(line, start, start + len(text))
            waiting += text
            if len(waiting) > _CHUNK:
                files.write(descriptor, bytes(waiting), written)
                written += len(waiting)
                waiting.clear()
        files.write(descriptor, bytes(waiting), written)
        files.sync(descriptor)
        rewritten.inode = os.fstat(descriptor).st_ino
    finally:
        os.close(descriptor)
    rewritten.durable = len(rewritten.starts)
    # Sequence numbers of removed checkpoints are not given again while the index is in memory.
    if rewritten.thread_id == source.thread_id:
        rewritten.state.next_seq = source.state.next_seq


def _remove_file(folder: Folder, files: Files, index: ThreadIndex, epoch: int) -> None:
    folder.marks.drop(Path(index.path).name)
    with folder.reading:
        try:
            with suppress(FileNotFoundError):
                files.remove(index.path)
        except OSError as error:
            raise translate(error, index.path) from error
        folder.epochs[index.thread_id] = epoch
        folder.remember(ThreadIndex(index.thread_id, index.path, epoch))
    _sync_names(folder, files)


def _sync_names(folder: Folder, files: Files) -> None:
    """Make a renamed or removed name durable.

    Raises:
        SaverBrokenError: the sync failed.
    """
    try:
        files.sync_folder(folder.path)
    except OSError as error:
        raise broken(error, folder.path) from error
