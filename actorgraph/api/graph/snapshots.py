"""Read snapshots of a thread: one checkpoint, or its history, newest first, a page at a time."""

from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import Any

from actorgraph.api.graph.setup import AddressedGraph
from actorgraph.api.pages import Pages
from actorgraph.codec import Codec
from actorgraph.codec.records import decode_metadata, encode_json
from actorgraph.codec.restore import restore, stored_write
from actorgraph.plan.plan import Plan
from actorgraph.runtime.run.launch import Address
from actorgraph.runtime.run.start import load
from actorgraph.runtime.saver.hosting import Host
from actorgraph.superstep.snapshot import empty_snapshot, snapshot, unsaved_snapshot
from actorgraph.values.checkpoint import StoredWrite
from actorgraph.values.commits import ListCheckpoints, LoadCheckpoint, Loaded, StoredCheckpoint
from actorgraph.values.state_snapshot import StateSnapshot


async def read_state(
    host: Host, codec: Codec, plan: Plan, address: Address, config: Mapping[str, Any]
) -> StateSnapshot:
    """Return the snapshot of the addressed checkpoint; without one, of the thread as it is now.

    Args:
        config: becomes that of an empty snapshot, if the thread has no checkpoint.
    """
    found = await load(host, codec, plan, address, parents=True)
    restored = found.restored
    if restored is None:
        return empty_snapshot(dict(config))
    if not restored.id:
        return unsaved_snapshot(dict(config))
    parents = found.parents
    if parents is None:  # this saver can't read the parent in the same query
        parents = await ledger_of(host, codec, address, restored.parent)
    return snapshot(
        plan,
        restored,
        address.thread_id,
        live=address.checkpoint is None,
        parent_ledger=parents,
    )


async def ledger_of(
    host: Host, codec: Codec, address: Address, checkpoint: bytes | None
) -> tuple[StoredWrite, ...]:
    """Read the pending writes of a checkpoint; none for None."""
    if checkpoint is None:
        return ()
    query = LoadCheckpoint(address.thread_id, address.namespace, checkpoint)
    stored = (await host.reader.ask(query)).checkpoint
    return decoded(codec, stored) if stored else ()


def decoded(codec: Codec, stored: StoredCheckpoint) -> tuple[StoredWrite, ...]:
    """Decode the pending writes of a stored checkpoint."""
    return tuple(stored_write(codec, stored, row) for row in stored.ledger)


PAGE_SIZE = 100
Where = tuple[tuple[str, object], ...]
_RowWithParent = tuple[StoredCheckpoint, tuple[StoredWrite, ...]]
"""A checkpoint, and the pending writes of its parent."""


def read_history(
    at: AddressedGraph, *, where: Where, before: bytes | None, limit: int | None, lineage: bool
) -> AsyncIterator[StateSnapshot]:
    """Iterate over the snapshots of a namespace, newest first.

    Args:
        where: metadata that must be equal.
        before: a checkpoint id; only older ones are listed.
        limit: the most snapshots; None for all.
        lineage: list only the addressed checkpoint, by default the newest, and its ancestors.
            Without it an addressed checkpoint is listed alone.
    """
    shown = partial(_record, at)
    if lineage:
        return Pages(_LineageReader(at, where, before, limit).page, shown)
    if at.address.checkpoint is not None:
        return Pages(_SingleReader(at, where, before, limit).page, shown)
    return Pages(_PageReader(at, where, before, limit).page, shown)


class _PageReader:
    """Reads the pages of a listing."""

    def __init__(
        self, at: AddressedGraph, where: Where, before: bytes | None, limit: int | None
    ) -> None:
        self._at, self._where = at, where
        self._bound, self._left, self._full = before, limit, True
        self._after: tuple[bytes, str, int] | None = None
        self._beyond: list[StoredCheckpoint] = []

    async def page(self) -> list[_RowWithParent]:
        """Return the next page, to be made into snapshots."""
        rows = await self.rows()
        return await _with_parents(self._at, rows, self._beyond)

    async def rows(self) -> list[StoredCheckpoint]:
        """Return the next page as it is stored.

        One row more is read: it says whether there is another page, and most often it is the
        parent of the page's last row, whose writes that one's snapshot needs.
        """
        size = PAGE_SIZE if self._left is None else min(self._left, PAGE_SIZE)
        if size <= 0 or not self._full:
            return []
        place = self._at.address
        query = ListCheckpoints(
            place.thread_id,
            place.namespace,
            None if self._after else self._bound,
            self._where,
            size + 1,
            ancestors=True,
            after=self._after,
        )
        read: list[StoredCheckpoint] = await self._at.host.reader.ask(query)
        found, self._beyond = read[:size], read[size:]
        self._full = bool(self._beyond)
        if found:  # continue after a position, not an id: that row may be removed meanwhile
            last = found[-1]
            self._after = (last.row.id, last.thread_id, last.sequence)
        self._left = None if self._left is None else self._left - len(found)
        return found


class _SingleReader:
    """Reads the one checkpoint that is addressed, if it matches the filters."""

    def __init__(
        self, at: AddressedGraph, where: Where, before: bytes | None, limit: int | None
    ) -> None:
        self._at, self._rows = at, _PageReader(at, where, before, None)
        self._done = limit == 0

    async def page(self) -> list[_RowWithParent]:
        """Return that checkpoint once, then an empty page."""
        while not self._done and (rows := await self._rows.rows()):
            found = [row for row in rows if row.row.id == self._at.address.checkpoint]
            if found:
                self._done = True
                return await _with_parents(self._at, found)
        return []


class _LineageReader:
    """Reads a checkpoint and its ancestors out of the pages of the whole namespace.

    One pass suffices, because a parent is always older than its child.
    """

    def __init__(
        self, at: AddressedGraph, where: Where, before: bytes | None, limit: int | None
    ) -> None:
        self._at, self._where, self._left = at, dict(where), limit
        self._rows = _PageReader(at, (), None, None)
        self._before = before
        self._begun = False
        self._next = at.address.checkpoint

    async def page(self) -> list[_RowWithParent]:
        """Return the next page with a match; an empty one at the root."""
        while self._left != 0 and (rows := await self._rows.rows()):
            found = [row for row in rows if self._is_next_ancestor(row) and self._matches(row)][
                : self._left
            ]
            if self._left is not None:
                self._left -= len(found)
            if found:
                return await _with_parents(self._at, found)
        return []

    def _is_next_ancestor(self, stored: StoredCheckpoint) -> bool:
        """Whether a row is the next ancestor, and older than `before`.

        A row that is its own parent ends the walk: damaged data must not make it endless.
        """
        row = stored.row
        older, self._before = self._before is None, _unless(self._before, row.id)
        if self._next is None and self._begun:
            return False
        if self._next not in (None, row.id):
            return False
        self._begun = True
        self._next = None if row.parent == row.id else row.parent
        return older

    def _matches(self, stored: StoredCheckpoint) -> bool:
        row = stored.row
        metadata = {**decode_metadata(row.metadata), "step": row.step, "source": row.source}
        return all(
            key in metadata and encode_json(metadata[key]) == encode_json(value)  # true is not 1
            for key, value in self._where.items()
        )


def _unless(wanted: bytes | None, found: bytes) -> bytes | None:
    return None if wanted == found else wanted


async def _with_parents(
    at: AddressedGraph, page: list[StoredCheckpoint], beyond: Sequence[StoredCheckpoint] = ()
) -> list[_RowWithParent]:
    """Pair checkpoints with the pending writes of their parents, which made them."""
    ledgers = {stored.row.id: decoded(at.codec, stored) for stored in (*page, *beyond)}
    found: list[_RowWithParent] = []
    for stored in page:
        parent = stored.row.parent
        if parent is not None and parent not in ledgers:
            ledgers[parent] = await ledger_of(at.host, at.codec, at.address, parent)
        found.append((stored, ledgers.get(parent or b"", ())))
    return found


def _record(at: AddressedGraph, row: _RowWithParent) -> StateSnapshot:
    """Build the snapshot of a row, when the reader asks for it."""
    stored, parents = row
    found = restore(at.codec, at.plan, Loaded(checkpoint=stored, head=stored.row.id))
    assert found is not None
    return snapshot(at.plan, found[0], stored.thread_id, live=False, parent_ledger=parents)
