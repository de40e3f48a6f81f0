"""Read snapshots of a thread: of one checkpoint, or of its history, a page at a time."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from actorgraph.api.graph.addressed import AddressedGraph
from actorgraph.api.pages import Pages
from actorgraph.codec.records import decode_metadata, encode_json
from actorgraph.codec.restore import ParentWrites, restore
from actorgraph.runtime.run.start import load
from actorgraph.runtime.saver.thread_runs import works_on
from actorgraph.superstep.snapshot import (
    empty_snapshot,
    snapshot,
    unsaved_snapshot,
    with_late_writes,
)
from actorgraph.values.checkpoint import Restored
from actorgraph.values.commits import ListCheckpoints, LoadCheckpoint, Loaded, StoredCheckpoint
from actorgraph.values.state_snapshot import StateSnapshot


async def read_state(at: AddressedGraph, config: Mapping[str, Any]) -> StateSnapshot:
    """Return the snapshot of the addressed checkpoint; without one, of the thread as it is now.

    Args:
        config: becomes that of an empty snapshot, if the thread has no checkpoint.
    """
    found = await load(at.host, at.codec, at.plan, at.address, parents=True, declared=at.declared)
    restored = found.restored
    if restored is None:
        return empty_snapshot(dict(config))
    live = at.address.checkpoint is None
    holder = found.holder if live and not at.address.namespace else None
    works = await works_on(at.host, at.address.thread_id, holder, restored.created)
    if not restored.id:
        return unsaved_snapshot(dict(config), works=works)
    parents = found.parents or await _writes_of(at, restored.parent)  # some read it in one query
    return _shown(at, restored, parents, live=live, held=holder is not None, works=works)


def _shown(
    at: AddressedGraph, restored: Restored, parents: ParentWrites | None, **view: bool
) -> StateSnapshot:
    """Make a snapshot as `view` says; large writes are decoded when they are looked at."""
    large = parents is not None and parents.are_large
    given = () if parents is None or large else parents
    made = snapshot(at.plan, restored, at.address.thread_id, parent_ledger=given, **view)
    return with_late_writes(made, at.plan, restored, parents) if parents and large else made


async def _writes_of(at: AddressedGraph, checkpoint: bytes | None) -> ParentWrites | None:
    """Read the pending writes of a checkpoint; None if absent, or for None."""
    if checkpoint is None:
        return None
    query = LoadCheckpoint(at.address.thread_id, at.address.namespace, checkpoint)
    stored = (await at.host.reader.ask(query)).checkpoint
    return ParentWrites(at.codec, stored, stored.ledger) if stored else None


PAGE_SIZE = 100
Where = tuple[tuple[str, object], ...]
_RowWithParent = tuple[StoredCheckpoint, ParentWrites | None]
"""A checkpoint, and the pending writes of its parent."""


def read_history(
    at: AddressedGraph, *, where: Where, before: bytes | None, limit: int | None, lineage: bool
) -> Pages[StateSnapshot]:
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
    ledgers: dict[bytes, ParentWrites | None] = {
        stored.row.id: ParentWrites(at.codec, stored, stored.ledger) for stored in (*page, *beyond)
    }
    found: list[_RowWithParent] = []
    for stored in page:
        parent = stored.row.parent
        if parent is not None and parent not in ledgers:
            ledgers[parent] = await _writes_of(at, parent)
        found.append((stored, ledgers.get(parent or b"")))
    return found


def _record(at: AddressedGraph, row: _RowWithParent) -> StateSnapshot:
    """Build the snapshot of a row, when the reader asks for it."""
    stored, parents = row
    found = restore(at.codec, at.plan, Loaded(checkpoint=stored, head=stored.row.id))
    assert found is not None
    return _shown(at, found[0], parents, live=False)
