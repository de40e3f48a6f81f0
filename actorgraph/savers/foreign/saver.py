"""ForeignBackend: `ports.Saver` over a saver with LangGraph's methods.

Claims   claims, heads and epochs are kept in this process: of two of its runs that begin on a
         thread one gets a ConflictError. Runs of other processes are noticed when a run begins,
         not later
Commits  are several calls of the saver, not atomic: pending writes of earlier checkpoints first,
         then each checkpoint, then the writes beside it
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from actorgraph.codec.records import decode_record
from actorgraph.errors import CheckpointError
from actorgraph.savers.foreign.methods import SaverMethods
from actorgraph.savers.foreign.payloads import (
    LiveCodec,
    SaverStyle,
    convert_from_langgraph,
    number_of,
)
from actorgraph.savers.foreign.reading import address_of, matches, record_of, stored_checkpoint
from actorgraph.savers.foreign.retention import apply_retention, threads_with
from actorgraph.savers.foreign.task_writes import NOTE_CHANNEL, put_writes_calls
from actorgraph.savers.foreign.writing import LastCheckpoint, missing_values, put_arguments
from actorgraph.savers.judge import ThreadState, answer_rows, branch_base, judge
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
"""Limits of such a saver, for warnings."""

PlaceConfig = dict[str, dict[str, Any]]
_NO_PARENT = LastCheckpoint(None, {}, {}, {}, {})


def config_for(thread_id: str, namespace: str, checkpoint: bytes | None = None) -> PlaceConfig:
    """Return the config that addresses a checkpoint, or the newest one of a namespace."""
    place: dict[str, Any] = {"thread_id": thread_id, "checkpoint_ns": namespace}
    if checkpoint is not None:
        place["checkpoint_id"] = as_text(checkpoint)
    return {"configurable": place}


class _Thread(msgspec.Struct):
    """State of a thread while a run has it.

    Attributes:
        state: for `judge`.
        run: the open run; None between runs.
        last: namespace -> its newest checkpoint, as it was put.
    """

    state: ThreadState
    run: StoredClaim | None = None
    last: dict[str, LastCheckpoint] = {}


class ForeignBackend:
    """A saver with LangGraph's methods, adapted to the runtime's port.

    Args:
        saver: has `put`, `put_writes`, `get_tuple` and `list`, or their async versions.
    """

    durable = True
    immediate = False

    def __init__(self, saver: Any) -> None:
        self.saver = saver
        self.codec = LiveCodec()
        self._calls = SaverMethods(saver)
        self._style = SaverStyle(saver)
        self._threads: dict[str, _Thread] = {}

    async def open(self) -> None:
        """See `ports.Saver.open`; the program opens the saver itself."""
        self._calls.open()

    async def close(self) -> None:
        """See `ports.Saver.close`; the program closes the saver itself."""

    async def commit(self, batch: Sequence[Request]) -> list[CommitOutcome]:
        """See `ports.Saver.commit`; each request is stored separately."""
        outcomes: list[CommitOutcome] = []
        for request in batch:
            try:
                outcomes.append(await self._apply(request))
            except CheckpointError as error:
                # It may be stored in part: forget the thread, so that its head is read again.
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
        outcome = await apply_retention(self._calls, request)
        thread = self._threads.pop(request.thread_id, None)
        epoch = thread.state.epoch if thread else 1
        if isinstance(request, DeleteThread):
            # The raised epoch keeps an open run of this process from bringing the thread back.
            self._threads[request.thread_id] = _Thread(
                ThreadState(request.thread_id, epoch=epoch + 1)
            )
        return outcome

    async def _commit(self, commit: Commit) -> CommitOutcome:
        thread_id, namespace = commit.thread_id, commit.namespace
        thread = self._threads.setdefault(thread_id, _Thread(ThreadState(thread_id)))
        answered = await self._refresh_head(commit, thread)
        base = branch_base(commit)
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
        """Forget a thread without a run: other processes may change it from now on."""
        thread_id, epoch = thread.state.thread_id, thread.state.epoch
        del self._threads[thread_id]
        if epoch > 1:
            self._threads[thread_id] = _Thread(ThreadState(thread_id, epoch=epoch))

    async def _refresh_head(self, commit: Commit, thread: _Thread) -> bool:
        """Read the head for `judge`; return whether an interrupt is answered already.

        While a run has the thread the head is known from its own commits.
        """
        heads = thread.state.heads
        known = commit.namespace in heads and commit.claim is None and thread.run is not None
        if commit.run is None or known:
            return False
        if commit.claim is None and thread.run is not None:
            # A subgraph's first commit: the run has the thread, so its head is not compared.
            heads[commit.namespace] = commit.head
            return False
        thread.last.clear()
        checkpoint_tuple = await self._calls.call(
            "get_tuple", config_for(commit.thread_id, commit.namespace)
        )
        heads[commit.namespace] = (
            None if checkpoint_tuple is None else address_of(checkpoint_tuple)[2]
        )
        rows = answer_rows(commit)
        if not rows or checkpoint_tuple is None:
            return False
        there = {
            (row.task, row.index, row.generation)
            for row in stored_checkpoint(checkpoint_tuple).ledger
        }
        return any((row.task, row.index, row.generation) in there for row in rows)

    async def _parent(
        self, commit: Commit, thread: _Thread, parent: bytes | None
    ) -> LastCheckpoint | None:
        """Return a checkpoint's parent, read if need be; None if it doesn't exist any more."""
        if parent is None:
            return _NO_PARENT
        last = thread.last.get(commit.namespace)
        if last is not None and last.id == parent:
            return last
        place = config_for(commit.thread_id, commit.namespace, parent)
        checkpoint_tuple = await self._calls.call("get_tuple", place)
        if checkpoint_tuple is None:
            return None
        last = _last_checkpoint(checkpoint_tuple)
        thread.last[commit.namespace] = last
        return last

    async def _put(self, commit: Commit, thread: _Thread, row: CheckpointRow) -> None:
        last = await self._parent(commit, thread, row.parent) or _NO_PARENT
        absent = missing_values(row, last)
        if absent:
            last = await self._with_missing_values(commit, last, absent)
        put, thread.last[commit.namespace] = put_arguments(row, last, self._style)
        place = config_for(commit.thread_id, commit.namespace, row.parent)
        await self._calls.call("put", place, put.checkpoint, put.metadata, put.new_versions)

    async def _with_missing_values(
        self, commit: Commit, last: LastCheckpoint, absent: dict[str, int]
    ) -> LastCheckpoint:
        """Add missing values to a parent, from other checkpoints of its namespace.

        Args:
            absent: channel -> version of the missing value.
        """
        values, versions = dict(last.values), dict(last.versions)
        asked = ListCheckpoints(commit.thread_id, commit.namespace)

        def has_one(checkpoint_tuple: Any) -> bool:
            held = checkpoint_tuple.checkpoint["channel_values"]
            versions_ = checkpoint_tuple.checkpoint["channel_versions"]
            return matches(checkpoint_tuple, asked) and any(
                c in held and number_of(versions_.get(c, 0)) == n for c, n in absent.items()
            )

        config = config_for(commit.thread_id, commit.namespace)
        for checkpoint_tuple in await self._calls.listed(has_one, None, config=config):
            for channel, number in absent.items():
                version = checkpoint_tuple.checkpoint["channel_versions"].get(channel, 0)
                if number_of(version) == number:
                    values[channel] = convert_from_langgraph(
                        checkpoint_tuple.checkpoint["channel_values"].get(channel)
                    )
                    versions[channel] = version
        return LastCheckpoint(last.id, values, versions, last.seen, last.lists)

    async def _put_ledger(self, commit: Commit, rows: list[LedgerRow]) -> None:
        for row in rows:
            place = config_for(commit.thread_id, commit.namespace, row.base)
            for task, writes, path in put_writes_calls(row, self._style):
                before = await self._earlier_writes(place, task) if row.index > 0 else []
                await self._calls.call("put_writes", place, [*before, *writes], task, path)

    async def _earlier_writes(self, place: PlaceConfig, task: str) -> list[tuple[str, Any]]:
        """Read a task's earlier writes.

        LangGraph's savers number the writes of each `put_writes` from 0, so a later call that
        didn't repeat the earlier ones would collide with them.
        """
        checkpoint_tuple = await self._calls.call("get_tuple", place)
        pending = (checkpoint_tuple.pending_writes or ()) if checkpoint_tuple is not None else ()
        return [
            (channel, value)
            for owner, channel, value in pending
            if owner == task and channel not in CONTROL_INDEX and channel != NOTE_CHANNEL
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
        page = [stored_checkpoint(item) for item in await self._page(query)]
        if query.bare:
            return [msgspec.structs.replace(s, blobs={}, ledger=()) for s in page]
        if not query.ancestors:
            return page
        return [await self._with_ancestors(stored) for stored in page]

    async def _load(self, query: LoadCheckpoint) -> Loaded:
        thread = self._threads.get(query.thread_id)
        newest = await self._calls.call("get_tuple", config_for(query.thread_id, query.namespace))
        checkpoint_tuple, epoch = newest, thread.state.epoch if thread else 1
        if newest is None:
            return Loaded(epoch=epoch, open_run=thread.run if thread else None)
        head = address_of(newest)[2]
        if query.id is not None and query.id != head:
            place = config_for(query.thread_id, query.namespace, query.id)
            checkpoint_tuple = await self._calls.call("get_tuple", place)
        stored = None if checkpoint_tuple is None else stored_checkpoint(checkpoint_tuple)
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
            config = config_for(query.thread_id, query.namespace or "")
            if query.namespace is None:
                del config["configurable"]["checkpoint_ns"]
        before = None
        if query.before is not None and query.thread_id is not None:
            before = config_for(query.thread_id, query.namespace or "", query.before)
        # Savers may list one namespace after the other, so the saver's first `limit` ones are the
        # newest only within one namespace.
        ordered = None not in (query.thread_id, query.namespace) and not query.oldest_first
        items = await self._calls.listed(
            lambda item: matches(item, query),
            query.limit if ordered else None,
            config=config,
            before=before,
        )
        items.sort(key=lambda item: address_of(item)[2], reverse=not query.oldest_first)
        return items[: query.limit] if query.limit is not None else items

    async def _with_ancestors(self, stored: StoredCheckpoint) -> StoredCheckpoint:
        """Add the ancestors that the values of a checkpoint's DeltaChannels are folded from."""
        record = decode_record(stored.row.record)
        left, ancestors, above = set(record.deltas), list[StoredCheckpoint](), stored
        while left and above.row.parent is not None:
            place = config_for(stored.thread_id, stored.namespace, above.row.parent)
            checkpoint_tuple = await self._calls.call("get_tuple", place)
            if checkpoint_tuple is None:
                break
            above = stored_checkpoint(checkpoint_tuple)
            ancestors.append(above)
            left.intersection_update(decode_record(above.row.record).deltas)
        return msgspec.structs.replace(stored, ancestors=tuple(ancestors))


def _last_checkpoint(checkpoint_tuple: Any) -> LastCheckpoint:
    checkpoint = checkpoint_tuple.checkpoint
    values = {c: convert_from_langgraph(v) for c, v in checkpoint["channel_values"].items()}
    versions, seen = checkpoint["channel_versions"], checkpoint["versions_seen"]
    return LastCheckpoint(address_of(checkpoint_tuple)[2], values, versions, seen, {})
