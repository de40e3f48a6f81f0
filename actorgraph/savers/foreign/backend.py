"""ForeignBackend: the port over a saver with LangGraph's methods.

Claims, heads and epochs are kept in this process: of its runs on a thread one has it, and of two
that begin one gets a ConflictError. Another process's runs are seen when a run begins, and not
after that. A commit is several calls; the ledger's come before the checkpoint's.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from actorgraph.codec.records import decode_record
from actorgraph.errors import CheckpointError
from actorgraph.savers.foreign.calls import Calls
from actorgraph.savers.foreign.forms import incoming
from actorgraph.savers.foreign.keeping import keep, threads_with
from actorgraph.savers.foreign.ledger import NOTE, puts
from actorgraph.savers.foreign.live import LiveCodec
from actorgraph.savers.foreign.reading import matches, place_of, record_of, stored_of
from actorgraph.savers.foreign.versions import Style, number_of
from actorgraph.savers.foreign.writing import Last, missing, put_of
from actorgraph.savers.judge import ThreadState, answer_rows, branches_off, judge
from actorgraph.values.commits import (
    CheckpointRow,
    Commit,
    CommitOutcome,
    Committed,
    LedgerRow,
    ListCheckpoints,
    LoadCheckpoint,
    Loaded,
    Query,
    Refused,
    Request,
    StoredCheckpoint,
    StoredClaim,
)
from actorgraph.values.constants import CONTROL_INDEX
from actorgraph.values.ids import as_text, ticks_of
from actorgraph.values.retention import CountCheckpoints, DeleteThread, ListThreads

LIMITS = ("no compare-and-set", "no batch", "whole values", "order by id")
"""What such a saver can't promise, in a few words."""

Place = dict[str, dict[str, Any]]
_NOTHING = Last(None, {}, {}, {}, {})


def at(thread_id: str, namespace: str, checkpoint: bytes | None = None) -> Place:
    """A config that addresses a checkpoint, or the newest of a namespace."""
    place: dict[str, Any] = {"thread_id": thread_id, "checkpoint_ns": namespace}
    if checkpoint is not None:
        place["checkpoint_id"] = as_text(checkpoint)
    return {"configurable": place}


class _Thread(msgspec.Struct):
    """What is known of a thread while a run goes on."""

    state: ThreadState
    run: StoredClaim | None = None
    last: dict[str, Last] = {}


class ForeignBackend:
    """A saver that somebody else wrote, as a store of rows.

    Args:
        saver: has `put`, `put_writes`, `get_tuple` and `list`, or their async twins.
    """

    durable = True
    immediate = False

    def __init__(self, saver: Any) -> None:
        self.saver = saver
        self.codec = LiveCodec()
        self._calls = Calls(saver)
        self._style = Style(saver)
        self._threads: dict[str, _Thread] = {}

    async def open(self) -> None:
        """See `ports.Saver.open`; the saver itself is opened by whoever made it."""
        self._calls.open()

    async def close(self) -> None:
        """See `ports.Saver.close`; the saver itself stays open."""

    async def commit(self, batch: Sequence[Request]) -> list[CommitOutcome]:
        """See `ports.Saver.commit`; each request is stored by itself."""
        outcomes: list[CommitOutcome] = []
        for request in batch:
            try:
                outcomes.append(await self._apply(request))
            except CheckpointError as error:
                self._threads.pop(request.thread_id, None)
                outcomes.append(Refused(error))
        return outcomes

    async def query(self, queries: Sequence[Query]) -> list[Any]:
        """See `ports.Saver.query`."""
        return [await self._answer(query) for query in queries]

    # --- writing ---

    async def _apply(self, request: Request) -> CommitOutcome:
        if isinstance(request, Commit):
            return await self._commit(request)
        outcome = await keep(self._calls, request)
        thread = self._threads.pop(request.thread_id, None)
        epoch = thread.state.epoch if thread else 1
        if isinstance(request, DeleteThread):
            # A run that is still going on can't bring the data back while this process lives.
            self._threads[request.thread_id] = _Thread(
                ThreadState(request.thread_id, epoch=epoch + 1)
            )
        return outcome

    async def _commit(self, commit: Commit) -> CommitOutcome:
        thread_id, namespace = commit.thread_id, commit.namespace
        thread = self._threads.setdefault(thread_id, _Thread(ThreadState(thread_id)))
        answered = await self._look(commit, thread)
        base = branches_off(commit)
        based = base is None or await self._parent(commit, thread, base) is not None
        sequence, error = judge(commit, thread.state, answered=answered, based=based)
        if error is not None:
            return Refused(error)
        if commit.claim is not None and commit.run is not None:
            claim = commit.claim
            thread.run = StoredClaim(commit.run, claim.head, claim.mode, claim.input)
        new = {row.id for row in commit.checkpoints}
        await self._put_ledger(commit, [row for row in commit.ledger if row.base not in new])
        for row in commit.checkpoints:
            await self._put(commit, thread, row)
        await self._put_ledger(commit, [row for row in commit.ledger if row.base in new])
        if commit.checkpoints and thread.run is not None and not namespace:
            thread.run = msgspec.structs.replace(thread.run, head=commit.checkpoints[-1].id)
        if thread.state.run is None:
            self._forget(thread)
        return Committed(ticks_of(commit.checkpoints[-1].id) if commit.checkpoints else sequence)

    def _forget(self, thread: _Thread) -> None:
        """No run has the thread: what is known of it may be out of date at once."""
        thread_id, epoch = thread.state.thread_id, thread.state.epoch
        del self._threads[thread_id]
        if epoch > 1:
            self._threads[thread_id] = _Thread(ThreadState(thread_id, epoch=epoch))

    async def _look(self, commit: Commit, thread: _Thread) -> bool:
        """Read the head that a commit is judged by; whether its questions have an answer already.

        While a run has the thread its own commits say where the head is.
        """
        heads = thread.state.heads
        known = commit.namespace in heads and commit.claim is None and thread.run is not None
        if commit.run is None or known:
            return False
        if commit.claim is None and thread.run is not None:
            heads[commit.namespace] = commit.head  # of a graph below: nobody else is there
            return False
        thread.last.clear()
        found = await self._calls.call("get_tuple", at(commit.thread_id, commit.namespace))
        heads[commit.namespace] = None if found is None else place_of(found)[2]
        rows = answer_rows(commit)
        if not rows or found is None:
            return False
        there = {(row.task, row.index, row.generation) for row in stored_of(found).ledger}
        return any((row.task, row.index, row.generation) in there for row in rows)

    async def _parent(self, commit: Commit, thread: _Thread, parent: bytes | None) -> Last | None:
        """A checkpoint's parent; None where it is gone."""
        if parent is None:
            return _NOTHING
        last = thread.last.get(commit.namespace)
        if last is not None and last.id == parent:
            return last
        place = at(commit.thread_id, commit.namespace, parent)
        found = await self._calls.call("get_tuple", place)
        if found is None:
            return None
        last = _last_of(found)
        thread.last[commit.namespace] = last
        return last

    async def _put(self, commit: Commit, thread: _Thread, row: CheckpointRow) -> None:
        last = await self._parent(commit, thread, row.parent) or _NOTHING
        absent = missing(row, last)
        if absent:
            last = await self._completed(commit, last, absent)
        put, thread.last[commit.namespace] = put_of(row, last, self._style)
        place = at(commit.thread_id, commit.namespace, row.parent)
        await self._calls.call("put", place, put.checkpoint, put.metadata, put.new_versions)

    async def _completed(self, commit: Commit, last: Last, absent: dict[str, int]) -> Last:
        """The parent with values of other checkpoints of its namespace."""
        values, versions = dict(last.values), dict(last.versions)
        asked = ListCheckpoints(commit.thread_id, commit.namespace)

        def has_one(found: Any) -> bool:
            held = found.checkpoint["channel_values"]
            at_ = found.checkpoint["channel_versions"]
            return matches(found, asked) and any(
                c in held and number_of(at_.get(c, 0)) == n for c, n in absent.items()
            )

        config = at(commit.thread_id, commit.namespace)
        for found in await self._calls.listed(has_one, None, config=config):
            for channel, number in absent.items():
                version = found.checkpoint["channel_versions"].get(channel, 0)
                if number_of(version) == number:
                    values[channel] = incoming(found.checkpoint["channel_values"].get(channel))
                    versions[channel] = version
        return Last(last.id, values, versions, last.seen, last.lists)

    async def _put_ledger(self, commit: Commit, rows: list[LedgerRow]) -> None:
        for row in rows:
            place = at(commit.thread_id, commit.namespace, row.base)
            for task, writes, path in puts(row, self._style):
                before = await self._before(place, task) if row.index > 0 else []
                await self._calls.call("put_writes", place, [*before, *writes], task, path)

    async def _before(self, place: Place, task: str) -> list[tuple[str, Any]]:
        """What a task has written already: savers number a call's writes from 0."""
        found = await self._calls.call("get_tuple", place)
        pending = (found.pending_writes or ()) if found is not None else ()
        return [
            (channel, value)
            for owner, channel, value in pending
            if owner == task and channel not in CONTROL_INDEX and channel != NOTE
        ]

    # --- reading ---

    async def _answer(self, query: Query) -> Any:
        if isinstance(query, LoadCheckpoint):
            return await self._load(query)
        if isinstance(query, ListThreads):
            return await threads_with(self._calls, query)
        if isinstance(query, CountCheckpoints):
            return len(await self._page(ListCheckpoints(query.thread_id, query.namespace)))
        assert isinstance(query, ListCheckpoints), "this saver keeps no runs"
        found = [stored_of(item) for item in await self._page(query)]
        if query.bare:
            return [msgspec.structs.replace(s, blobs={}, ledger=()) for s in found]
        if not query.ancestors:
            return found
        return [await self._with_ancestors(stored) for stored in found]

    async def _load(self, query: LoadCheckpoint) -> Loaded:
        thread = self._threads.get(query.thread_id)
        newest = await self._calls.call("get_tuple", at(query.thread_id, query.namespace))
        found, epoch = newest, thread.state.epoch if thread else 1
        if newest is None:
            return Loaded(epoch=epoch, open_run=thread.run if thread else None)
        head = place_of(newest)[2]
        if query.id is not None and query.id != head:
            place = at(query.thread_id, query.namespace, query.id)
            found = await self._calls.call("get_tuple", place)
        stored = None if found is None else stored_of(found)
        if stored is not None and query.ancestors:
            stored = await self._with_ancestors(stored)
        return Loaded(
            epoch=epoch,
            checkpoint=stored,
            head=head,
            open_run=thread.run if thread else None,
            version_floor=record_of(newest).floor,
        )

    async def _page(self, query: ListCheckpoints) -> list[Any]:
        config = None
        if query.thread_id is not None:
            config = at(query.thread_id, query.namespace or "")
            if query.namespace is None:
                del config["configurable"]["checkpoint_ns"]
        before = None
        if query.before is not None and query.thread_id is not None:
            before = at(query.thread_id, query.namespace or "", query.before)
        # A saver lists one namespace after the other: its first ones are not the newest of all.
        ordered = None not in (query.thread_id, query.namespace) and not query.oldest_first
        found = await self._calls.listed(
            lambda item: matches(item, query),
            query.limit if ordered else None,
            config=config,
            before=before,
        )
        found.sort(key=lambda item: place_of(item)[2], reverse=not query.oldest_first)
        return found[: query.limit] if query.limit is not None else found

    async def _with_ancestors(self, stored: StoredCheckpoint) -> StoredCheckpoint:
        """A checkpoint and those that its DeltaChannels' values are folded from."""
        record = decode_record(stored.row.record)
        left, ancestors, above = set(record.deltas), list[StoredCheckpoint](), stored
        while left and above.row.parent is not None:
            place = at(stored.thread_id, stored.namespace, above.row.parent)
            found = await self._calls.call("get_tuple", place)
            if found is None:
                break
            above = stored_of(found)
            ancestors.append(above)
            left.intersection_update(decode_record(above.row.record).deltas)
        return msgspec.structs.replace(stored, ancestors=tuple(ancestors))


def _last_of(found: Any) -> Last:
    checkpoint = found.checkpoint
    values = {c: incoming(v) for c, v in checkpoint["channel_values"].items()}
    versions, seen = checkpoint["channel_versions"], checkpoint["versions_seen"]
    return Last(place_of(found)[2], values, versions, seen, {})
