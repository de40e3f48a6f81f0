"""LangGraph's saver methods over the port: `aput`, `aput_writes`, `aget_tuple`, `alist` ...

They store whole values, without claims, for programs and tools that use a saver directly. The
runtime doesn't use them.
"""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, cast

import msgspec

from actorgraph.api.blocking import block_on
from actorgraph.api.config import address_of, limit_of, where_of
from actorgraph.api.listing import Listing
from actorgraph.api.pages import Pages
from actorgraph.api.strict_puts import is_stored, refuse_taken, refuse_versions
from actorgraph.channels import EMPTY
from actorgraph.codec import Codec
from actorgraph.codec.handoff import HandOff
from actorgraph.codec.records import decode_record, encode_record
from actorgraph.codec.restore import restore
from actorgraph.errors import (
    ConflictError,
    FormatVersionError,
    InvalidConfigError,
    SerializationError,
)
from actorgraph.plan.graph import Plan
from actorgraph.ports import Saver
from actorgraph.runtime.hosting import host_of
from actorgraph.runtime.log import event
from actorgraph.runtime.runs import Address
from actorgraph.superstep.chunks import address as address_config
from actorgraph.superstep.deltas import COUNTERS, counters_of
from actorgraph.superstep.pending import newest
from actorgraph.superstep.snapshot import iso
from actorgraph.values.checkpoint import Checkpoint, CheckpointTuple
from actorgraph.values.commits import (
    EPOCH_ANY,
    Commit,
    ListCheckpoints,
    LoadCheckpoint,
    Loaded,
    Query,
    StoredCheckpoint,
)
from actorgraph.values.constants import CHECKPOINT_FORMAT, CONTROL_INDEX
from actorgraph.values.ids import TaskId, as_bytes, as_text
from actorgraph.values.run import LedgerEntry, NewCheckpoint, Save

_NO_GRAPH = Plan(name="", graph_id="", channels={}, nodes={}, output_keys=(), state_keys=())
TRIES_MAX = 1_000
_NOT_STORED = ("source", "step", COUNTERS)
Config = Mapping[str, Any]


class CheckpointMethods:
    """LangGraph's methods. `config` addresses a thread, a namespace and maybe a checkpoint."""

    codec: Codec

    async def aget_tuple(self, config: Config) -> CheckpointTuple | None:
        """The addressed checkpoint, or the newest of the namespace; None if there is none."""
        place = address_of(config, needs_thread=True)
        loaded = await self._loaded(place.thread_id, place.namespace, place.checkpoint)
        return None if loaded.checkpoint is None else self._tuple(loaded.checkpoint)

    async def aget(self, config: Config) -> Checkpoint | None:
        """The checkpoint of `aget_tuple`."""
        found = await self.aget_tuple(config)
        return None if found is None else found.checkpoint

    def alist(
        self,
        config: Config | None,
        *,
        filter: Mapping[str, Any] | None = None,
        before: Config | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Checkpoints, newest first.

        They are read a page at a time, at most 100 or some 4 MB, so that a list of any length takes
        little memory, and whoever pauses between two of them holds up nobody.

        Args:
            config: the thread, and the namespace if it has the key `checkpoint_ns`; None for
                all threads.
            filter: metadata that must be equal. before: only what is older than this one.
            limit: how many at most; default all.
        Raises:
            InvalidConfigError: one of them can't be.
        """
        listing = self._listing(config, filter, before, limit)
        if listing.everywhere:
            return Pages(partial(self._sound, listing))
        return Pages(listing.page, self._tuple)

    async def _sound(self, listing: Listing) -> Sequence[CheckpointTuple]:
        """The next of all threads' checkpoints. One that can't be read hides no other: it is told.

        Returns: none at the end.
        """
        while rows := await listing.page():
            found: list[CheckpointTuple] = []
            for stored in rows:
                try:
                    found.append(self._tuple(stored))
                except (SerializationError, FormatVersionError) as error:
                    event("warning", "row.damaged", error=str(error))
            if found:
                return found
        return []

    def _listing(
        self,
        config: Config | None,
        filter: Mapping[str, Any] | None,
        before: Config | None,
        limit: int | None,
    ) -> Listing:
        place = address_of(config, needs_thread=False)
        named = "checkpoint_ns" in ((config or {}).get("configurable") or {})
        query = ListCheckpoints(
            thread_id=place.thread_id or None,
            namespace=place.namespace if named else None,
            before=address_of(before, needs_thread=False).checkpoint if before else None,
            where=where_of(filter),
            limit=limit_of(limit),
        )
        return Listing(self._asked, query)

    async def aput(
        self,
        config: Config,
        checkpoint: Checkpoint,
        metadata: Mapping[str, Any],
        new_versions: Mapping[str, Any],
        *,
        strict: bool = False,
        expected_versions: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Store a checkpoint whose parent is the one that `config` addresses.

        Of several checkpoints with one id the newest is read. Storing an equal one once more is a
        no-op.

        Args:
            new_versions: the channels whose value changed since the parent.
            strict: refuse it unless its parent is the newest checkpoint of the namespace (without
                a parent: unless there is none), and if another checkpoint has its id. So of two
                writers at once one is refused. Default False: it is stored as a branch.
            expected_versions: channel -> the version that it must have in the newest checkpoint;
                None for one without any. Others aren't compared.
        Returns: a config that addresses it.
        Raises:
            ConflictError: refused; nothing is stored. It names the newest checkpoint. Without
                `strict` and `expected_versions`: others were faster 1,000 times.
        """
        place = address_of(config, needs_thread=True)
        del new_versions  # each row names where every value is, so all of them are written
        point = _point(checkpoint, metadata, place.checkpoint)
        refuses = strict or expected_versions is not None
        left = 1 if refuses else TRIES_MAX
        while True:  # a run, or another put, may raise the versions between the look and the save
            left -= 1
            try:
                await self._put_point(place, point, checkpoint["v"], strict, expected_versions)
            except ConflictError:
                if not left:
                    raise
            else:
                return address_config(place.thread_id, place.namespace, point.id) or {}

    async def _put_point(
        self,
        place: Address,
        point: NewCheckpoint,
        shape: int,
        strict: bool,
        expected_versions: Mapping[str, Any] | None,
    ) -> None:
        """Store a checkpoint that knows the highest version of its namespace, as it is then."""
        known = await self._loaded(place.thread_id, place.namespace, point.id)
        if is_stored(self.codec, _NO_GRAPH, known, point, shape):
            return
        if strict:
            refuse_taken(place.thread_id, known)
        if expected_versions is not None:
            known = await self._loaded(place.thread_id, place.namespace, None)
            refuse_versions(place.thread_id, known, expected_versions)
        point = msgspec.structs.replace(point, highest=known.version_floor)
        save = Save(0, place.checkpoint if strict else known.head, checkpoints=(point,))
        await self._store(place.thread_id, place.namespace, save, shape, strict=True)

    async def aput_writes(
        self,
        config: Config,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Store writes of a task beside the addressed checkpoint; storing them twice is a no-op.

        Errors, interrupts and answers (`__error__`, `__interrupt__`, `__resume__`) replace what
        the task had of their kind.
        """
        place = address_of(config, needs_thread=True)
        if place.checkpoint is None:
            raise InvalidConfigError(
                "put_writes() needs a checkpoint_id", do="pass the config that put() returned"
            )
        base, task = place.checkpoint, TaskId(task_id)
        generation = 0
        if any(channel in CONTROL_INDEX for channel, _ in writes):
            generation = await self._next_generation(place.thread_id, place.namespace, base)
        entries = tuple(
            LedgerEntry(base, task, (task_path,), index, generation * (index < 0), ((channel, v),))
            for i, (channel, v) in enumerate(writes)
            for index in (CONTROL_INDEX.get(channel, i),)
        )
        await self._store(place.thread_id, place.namespace, Save(0, None, ledger=entries))

    async def _loaded(self, thread_id: str, namespace: str, named: bytes | None) -> Loaded:
        """What the namespace has, and the checkpoint of an id, or the newest."""
        return await self._host().reader.ask(LoadCheckpoint(thread_id, namespace, named))

    async def _next_generation(self, thread_id: str, namespace: str, base: bytes) -> int:
        """The generation of control rows that replace those beside a checkpoint."""
        loaded = await self._loaded(thread_id, namespace, base)
        rows = loaded.checkpoint.ledger if loaded.checkpoint else ()
        return 1 + max((row.generation for row in rows), default=0)

    def get_tuple(self, config: Config) -> CheckpointTuple | None:
        """`aget_tuple`, blocking."""
        return block_on("aget_tuple", lambda: self.aget_tuple(config))

    def get(self, config: Config) -> Checkpoint | None:
        """`aget`, blocking."""
        return block_on("aget", lambda: self.aget(config))

    def list(
        self,
        config: Config | None,
        *,
        filter: Mapping[str, Any] | None = None,
        before: Config | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """`alist`, blocking at the call and where a page begins."""
        listing = self._listing(config, filter, before, limit)
        everywhere = listing.everywhere
        read: Any = partial(self._sound, listing) if everywhere else listing.page
        first = block_on("alist", read)

        def rest() -> Iterator[CheckpointTuple]:
            page = first
            while page:
                yield from page if everywhere else map(self._tuple, page)
                page = block_on("alist", read)

        return rest()

    def put(
        self,
        config: Config,
        checkpoint: Checkpoint,
        metadata: Mapping[str, Any],
        new_versions: Mapping[str, Any],
        *,
        strict: bool = False,
        expected_versions: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """`aput`, blocking."""
        more: dict[str, Any] = {"strict": strict, "expected_versions": expected_versions}
        return block_on(
            "aput", lambda: self.aput(config, checkpoint, metadata, new_versions, **more)
        )

    def put_writes(
        self,
        config: Config,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """`aput_writes`, blocking."""
        block_on("aput_writes", lambda: self.aput_writes(config, writes, task_id, task_path))

    def get_next_version(self, current: int | None, channel: None = None) -> int:
        """The version after this one; the first is 1."""
        return 1 if current is None else current + 1

    async def _asked(self, query: Query) -> Any:
        return await self._host().reader.ask(query)

    def _host(self) -> Any:
        return host_of(cast("Saver", self))

    async def _store(
        self,
        thread_id: str,
        namespace: str,
        save: Save,
        shape: int = CHECKPOINT_FORMAT,
        *,
        strict: bool = False,
    ) -> None:
        handoff = HandOff(
            self.codec,
            _NO_GRAPH,
            thread_id=thread_id,
            namespace=namespace,
            run=b"",
            epoch=EPOCH_ANY,
            own_versions=True,
        )
        commit = handoff.commit(save)
        await self._host().writer.store(_outside_runs(commit, shape, strict))

    def _tuple(self, stored: StoredCheckpoint) -> CheckpointTuple:
        found = restore(self.codec, _NO_GRAPH, Loaded(checkpoint=stored, head=stored.row.id))
        assert found is not None
        point = found[0]
        where = (stored.thread_id, stored.namespace)
        checkpoint = Checkpoint(
            v=decode_record(stored.row.record).shape,
            id=as_text(point.id),
            ts=iso(point.created),
            channel_values=point.values,
            channel_versions=point.versions,
            versions_seen=point.seen,
            updated_channels=None if point.updated is None else [*point.updated],
        )
        metadata = {
            "parents": {},
            **point.metadata,
            **counters_of(point.deltas),
            "source": point.source,
            "step": point.step,
        }
        if point.run:
            metadata["run_id"] = as_text(point.run)
        writes = [(w.task, c, v) for w in newest(point.ledger) for c, v in w.writes]
        return CheckpointTuple(
            config=address_config(*where, point.id) or {},
            checkpoint=checkpoint,
            metadata=metadata,
            parent_config=address_config(*where, point.parent),
            pending_writes=writes,
        )


def _point(
    checkpoint: Checkpoint, metadata: Mapping[str, Any], parent: bytes | None
) -> NewCheckpoint:
    """A checkpoint of LangGraph's shape as one to store."""
    values = checkpoint["channel_values"]
    versions = {c: int(v) for c, v in checkpoint["channel_versions"].items()}
    missing = [channel for channel in values if channel not in versions]
    if missing:
        raise InvalidConfigError(
            f"channel {missing[0]!r} has a value and no version", do="give it a version"
        )
    deltas = metadata.get(COUNTERS, {})
    return NewCheckpoint(
        id=as_bytes(checkpoint["id"]),
        parent=parent,
        step=metadata.get("step", -1),
        source=metadata.get("source", "update"),
        changed={channel: values.get(channel, EMPTY) for channel in versions},
        versions=versions,
        seen=checkpoint["versions_seen"],
        updated=tuple(checkpoint.get("updated_channels") or ()) or None,
        next=(),
        metadata={k: v for k, v in metadata.items() if k not in _NOT_STORED},
        deltas={c: (n, points) for c, (n, points) in deltas.items() if c not in values},
        folds=metadata.get("source") == "loop",
    )


def _outside_runs(commit: Commit, shape: int, strict: bool) -> Commit:
    rows = [msgspec.structs.replace(row, run=None) for row in commit.checkpoints]
    if shape != CHECKPOINT_FORMAT:
        rows = [msgspec.structs.replace(row, record=_shaped(row.record, shape)) for row in rows]
    return msgspec.structs.replace(commit, run=None, checkpoints=tuple(rows), strict=strict)


def _shaped(text: str, shape: int) -> str:
    return encode_record(msgspec.structs.replace(decode_record(text), shape=shape))
