"""LangGraph's saver methods over the port: `aput`, `aput_writes`, `aget_tuple`, `alist` ...

They store whole values, without a claim of the thread, for programs and tools that use a saver
directly; the runtime doesn't call them. `aput` decides by what it has read whether a checkpoint
is stored already and what a strict put refuses. Whether the parent is still the newest
checkpoint is decided by the saver, in the transaction that stores it.
"""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NotRequired, TypedDict

import msgspec

from actorgraph.api.blocking import block_on, read_on
from actorgraph.api.config import address_of, limit_of, where_of
from actorgraph.api.pages import Pages
from actorgraph.api.savers.host_access import HostAccess
from actorgraph.api.savers.listing import Listing
from actorgraph.channels import EMPTY
from actorgraph.codec import Codec
from actorgraph.codec.records import Placement, decode_record, encode_record
from actorgraph.codec.restore import held_values, restore, stored_write
from actorgraph.codec.save_encoder import SaveEncoder
from actorgraph.errors import (
    CheckpointError,
    ConflictError,
    InvalidConfigError,
    SerializationError,
)
from actorgraph.errors.storage import DAMAGED, UNREADABLE
from actorgraph.plan.plan import Plan
from actorgraph.runtime.log import event
from actorgraph.runtime.run.launch import Address
from actorgraph.superstep.chunks import address as address_config
from actorgraph.superstep.deltas import COUNTERS, counters_of, in_order
from actorgraph.superstep.pending_writes import newest
from actorgraph.superstep.snapshot import iso
from actorgraph.values.checkpoint import Checkpoint, CheckpointTuple
from actorgraph.values.commits import (
    EPOCH_ANY,
    Commit,
    ListCheckpoints,
    LoadCheckpoint,
    Loaded,
    StoredCheckpoint,
)
from actorgraph.values.configs import Config, stored_metadata
from actorgraph.values.constants import CHECKPOINT_FORMAT, CONTROL_INDEX
from actorgraph.values.ids import TaskId, as_bytes, as_text
from actorgraph.values.run import LedgerEntry, NewCheckpoint, Save

_Pair = tuple[dict[str, Any], dict[str, Any]]
"""Values and metadata."""


def is_stored(codec: Codec, plan: Plan, loaded: Loaded, point: NewCheckpoint, shape: int) -> bool:
    """Whether the stored checkpoint with the same id is equal in everything.

    Args:
        loaded: the checkpoint stored under the id.
        point: the checkpoint to store.
        shape: its format version (`v`), which readers get back.
    """
    if loaded.checkpoint is None or point.deltas:
        return False
    record = decode_record(loaded.checkpoint.row.record)
    if record.deltas or record.shape != shape:
        return False
    try:
        found = restore(codec, plan, loaded)
    except CheckpointError:  # unreadable, so not known to be equal
        return False
    assert found is not None
    there = found[0]
    shown = (there.parent, there.step, there.source, there.versions, there.seen, there.updated)
    given = (point.parent, point.step, point.source, point.versions, point.seen, point.updated)
    values = {c: v for c, v in point.changed.items() if v is not EMPTY}
    return shown == given and _same(codec, (there.values, there.metadata), (values, point.metadata))


def _same(codec: Codec, one: _Pair, other: _Pair) -> bool:
    """Whether two pairs are encoded equally; `==` of arrays doesn't return a bool."""
    try:
        return codec.encode_plainly(_sorted(one)) == codec.encode_plainly(_sorted(other))
    except SerializationError:  # objects that an InMemorySaver(copy="none") keeps unencoded
        return False


def _sorted(pair: _Pair) -> tuple[Any, ...]:
    return tuple(dict(sorted(part.items())) for part in pair)


def refuse_taken(thread_id: str, loaded: Loaded) -> None:
    """Refuse an id that another checkpoint has.

    Raises:
        ConflictError: it does.
    """
    if loaded.checkpoint is not None:
        raise ConflictError(
            f"thread {thread_id!r} has another checkpoint "
            f"{as_text(loaded.checkpoint.row.id)}; nothing was stored",
            do="give the checkpoint an id of its own",
        )


def refuse_versions(thread_id: str, newest: Loaded, expected: Mapping[str, Any]) -> None:
    """Refuse a put that expects other channel versions than the newest checkpoint has.

    Args:
        newest: that checkpoint.
        expected: channel -> version; None for a channel without one yet.
    Raises:
        ConflictError: a version differs; it names the first such channel and the checkpoint.
    """
    found = newest.checkpoint
    versions = {} if found is None else decode_record(found.row.record).channel_versions
    name = "none" if found is None else as_text(found.row.id)
    for channel, version in sorted(expected.items()):
        if versions.get(channel) != version:
            raise ConflictError(
                f"channel {channel!r} of thread {thread_id!r} has version "
                f"{versions.get(channel)!r}, expected {version!r}: the newest checkpoint is "
                f"{name}; nothing was stored",
                do="load the thread again and repeat the put",
            )


NO_GRAPH = Plan(name="", graph_id="", channels={}, nodes={}, output_keys=(), state_keys=())
"""A plan without channels: values are stored and read whole, by no graph's rules."""
TRIES_MAX = 1_000
_NOT_STORED = ("source", "step", COUNTERS)

PendingWrite = tuple[str, str, Any]


class DeltaChannelHistory(TypedDict):
    """The writes that make one channel's value.

    Attributes:
        writes: `(task id, channel, value)`, oldest first.
        seed: the value of the nearest ancestor that holds a whole one; if it is absent, the
            writes are applied to an empty value of the type.
    """

    writes: list[PendingWrite]
    seed: NotRequired[Any]


class CheckpointMethods(HostAccess):
    """LangGraph's methods.

    `config` addresses a thread, a namespace (default the root's) and maybe a checkpoint.
    """

    async def aget_tuple(self, config: Config) -> CheckpointTuple | None:
        """Return the addressed checkpoint, or the newest of the namespace; None without one."""
        place = address_of(config, needs_thread=True)
        loaded = await self._loaded(place.thread_id, place.namespace, place.checkpoint)
        return None if loaded.checkpoint is None else self._tuple(loaded.checkpoint)

    async def aget(self, config: Config) -> Checkpoint | None:
        """Return the checkpoint of `aget_tuple` without its config, metadata and writes."""
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
        """List checkpoints, newest first.

        They are read a page at a time, at most 100 or about 4 MB, so that a list of any length
        takes little memory, and no transaction is open while the caller handles one. Of all
        threads' checkpoints those that can't be read are logged and left out; of one thread's the
        first of them raises.

        Args:
            config: the thread, and the namespace if it has the key `checkpoint_ns`; None for
                all threads.
            filter: metadata that must be equal.
            before: only checkpoints older than the one that this config addresses.
            limit: the most checkpoints; default all.
        Raises:
            InvalidConfigError: an argument is invalid.
        """
        listing = self._listing(config, filter, before, limit)
        if listing.all_threads:
            return Pages(partial(self._readable_page, listing))
        return Pages(listing.page, self._tuple)

    async def _readable_page(self, listing: Listing) -> Sequence[CheckpointTuple]:
        """Return the next page of all threads' checkpoints; an empty one at the end.

        A checkpoint that can't be read is logged and skipped, so that it doesn't hide others; it
        doesn't count for the limit, so that a list is short only at its end.
        """
        while rows := await listing.page():
            found: list[CheckpointTuple] = []
            for stored in rows:
                try:
                    found.append(self._tuple(stored))
                except (*UNREADABLE, *DAMAGED) as error:
                    event("warning", "row.damaged", error=str(error))
            listing.leave_out(len(rows) - len(found))
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
        return Listing(self._ask, query)

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

        Of several checkpoints with one id the newest is read. Storing an equal one again is a
        no-op.

        Args:
            config: the parent. Its `metadata` is stored like a run's, with secrets redacted.
            checkpoint: LangGraph's shape of one.
            metadata: JSON values; `source` and `step` are stored with the checkpoint. They come
                before those of the config.
            new_versions: the channels whose value changed since the parent.
            strict: refuse it unless its parent is the newest checkpoint of the namespace (without
                a parent: unless it is the first one), and if another checkpoint has its id. So of
                two concurrent writers one is refused. Default False: it is stored as a branch.
            expected_versions: channel -> the version that it must have in the newest checkpoint;
                None for a channel without one. Other channels are not compared.
        Returns: a config that addresses it.
        Raises:
            ConflictError: refused; nothing is stored. It names the newest checkpoint. Without
                `strict` and `expected_versions`: other writers were faster 1,000 times.
        """
        place = address_of(config, needs_thread=True)
        del new_versions  # a row lists the version of every value, so all of them are written
        if declared := config.get("metadata"):
            metadata = {**stored_metadata(declared), **metadata}
        point = _new_checkpoint(checkpoint, metadata, place.checkpoint)
        refuses = strict or expected_versions is not None
        # With a condition a conflict is the answer. Without one it only means that the version
        # floor was read too early, so it is read again.
        left = 1 if refuses else TRIES_MAX
        while True:  # a run or another put may raise the versions between the read and the save
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
        """Store a checkpoint, once, with the highest version that its namespace has by now."""
        known = await self._loaded(place.thread_id, place.namespace, point.id)
        if is_stored(self.codec, NO_GRAPH, known, point, shape):
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
        """Store pending writes of a task of the addressed checkpoint; twice is a no-op.

        Errors, interrupts and answers (`__error__`, `__interrupt__`, `__resume__`) replace the
        task's previous ones of their kind.

        Args:
            config: the checkpoint; it must have a checkpoint_id.
            writes: `(channel, value)` pairs.
            task_id: the task's.
            task_path: orders writes of different tasks.
        Raises:
            InvalidConfigError: the config has no checkpoint_id.
        """
        place = address_of(config, needs_thread=True)
        if place.checkpoint is None:
            raise InvalidConfigError(
                "put_writes() needs a checkpoint_id", do="pass the config that put() returned"
            )
        base, task = place.checkpoint, TaskId(task_id)
        # Control rows replace earlier ones by a higher generation; plain writes keep the first.
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
        """Load a namespace's versions and the named checkpoint, or the newest."""
        return await self._ask(LoadCheckpoint(thread_id, namespace, named))

    async def _next_generation(self, thread_id: str, namespace: str, base: bytes) -> int:
        """Return a generation above those stored, for control rows that replace them."""
        loaded = await self._loaded(thread_id, namespace, base)
        rows = loaded.checkpoint.ledger if loaded.checkpoint else ()
        return 1 + max((row.generation for row in rows), default=0)

    def get_tuple(self, config: Config) -> CheckpointTuple | None:
        """Blocking version of `aget_tuple`."""
        return read_on("aget_tuple", lambda: self.aget_tuple(config), self)

    def get(self, config: Config) -> Checkpoint | None:
        """Blocking version of `aget`."""
        return read_on("aget", lambda: self.aget(config), self)

    def list(
        self,
        config: Config | None,
        *,
        filter: Mapping[str, Any] | None = None,
        before: Config | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Blocking version of `alist`; blocks at the call and whenever a page is read."""
        listing = self._listing(config, filter, before, limit)
        all_threads = listing.all_threads
        read: Any = partial(self._readable_page, listing) if all_threads else listing.page
        first = read_on("alist", read, self)

        def rest() -> Iterator[CheckpointTuple]:
            page = first
            while page:
                yield from page if all_threads else map(self._tuple, page)
                page = read_on("alist", read, self)

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
        """Blocking version of `aput`."""
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
        """Blocking version of `aput_writes`."""
        block_on("aput_writes", lambda: self.aput_writes(config, writes, task_id, task_path))

    def get_next_version(self, current: int | None, channel: None = None) -> int:
        """Return the version after this one; the first is 1."""
        return 1 if current is None else current + 1

    async def aget_delta_channel_history(
        self, *, config: Config, channels: Sequence[str]
    ) -> dict[str, DeltaChannelHistory]:
        """Return the seed and the writes that make the values of channels at a checkpoint.

        It walks from parent to parent, so writes of other branches are not included. Pending
        writes of the checkpoint itself belong to the next superstep and are left out.

        Args:
            config: the checkpoint; the newest if it has no checkpoint_id.
            channels: their names.
        Returns: channel -> its history.
        """
        place = address_of(config, needs_thread=True)
        found: dict[str, DeltaChannelHistory] = {name: {"writes": []} for name in channels}
        left = set(found)
        at = (await self._loaded(place.thread_id, place.namespace, place.checkpoint)).checkpoint
        while left and at is not None and at.row.parent is not None:
            folds = decode_record(at.row.record).folds
            at = (await self._loaded(place.thread_id, place.namespace, at.row.parent)).checkpoint
            if at is None:
                break
            if folds:
                for name in left:
                    found[name]["writes"][:0] = _writes_of(self.codec, at, name)
            record = decode_record(at.row.record)
            ends = left.difference(record.deltas).intersection(record.channel_versions)
            seeds = held_values(self.codec, NO_GRAPH, at, record.only(ends), Placement())
            for name, seed in seeds.items():
                found[name]["seed"] = seed
            left.difference_update(ends)
        return found

    def get_delta_channel_history(
        self, *, config: Config, channels: Sequence[str]
    ) -> dict[str, DeltaChannelHistory]:
        """Blocking version of `aget_delta_channel_history`."""
        return block_on(
            "aget_delta_channel_history",
            lambda: self.aget_delta_channel_history(config=config, channels=channels),
        )

    async def _store(
        self,
        thread_id: str,
        namespace: str,
        save: Save,
        shape: int = CHECKPOINT_FORMAT,
        *,
        strict: bool = False,
    ) -> None:
        save_encoder = SaveEncoder(
            self.codec,
            NO_GRAPH,
            thread_id=thread_id,
            namespace=namespace,
            run=b"",
            epoch=EPOCH_ANY,
            own_versions=True,
        )
        commit = save_encoder.commit(save)
        await self._host().writer.store(_outside_runs(commit, shape, strict))

    def _tuple(self, stored: StoredCheckpoint) -> CheckpointTuple:
        found = restore(self.codec, NO_GRAPH, Loaded(checkpoint=stored, head=stored.row.id))
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


def _writes_of(codec: Codec, stored: StoredCheckpoint, channel: str) -> list[PendingWrite]:
    rows = in_order(stored_write(codec, stored, row) for row in stored.ledger)
    return [(row.task, name, v) for row in rows for name, v in row.writes if name == channel]


def _new_checkpoint(
    checkpoint: Checkpoint, metadata: Mapping[str, Any], parent: bytes | None
) -> NewCheckpoint:
    """Convert a checkpoint of LangGraph's shape to one to store.

    Raises:
        InvalidConfigError: a channel has a value but no version.
    """
    values = checkpoint["channel_values"]
    versions = {c: int(v) for c, v in checkpoint["channel_versions"].items()}
    missing = [channel for channel in values if channel not in versions]
    if missing:
        raise InvalidConfigError(
            f"channel {missing[0]!r} has a value but no version",
            do="add it to checkpoint['channel_versions']",
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
    """Remove the run's id, which a checkpoint stored by hand has not, and set its format."""
    rows = [msgspec.structs.replace(row, run=None) for row in commit.checkpoints]
    if shape != CHECKPOINT_FORMAT:
        rows = [
            msgspec.structs.replace(row, record=_with_format(row.record, shape)) for row in rows
        ]
    return msgspec.structs.replace(commit, run=None, checkpoints=tuple(rows), strict=strict)


def _with_format(text: str, shape: int) -> str:
    return encode_record(msgspec.structs.replace(decode_record(text), shape=shape))
