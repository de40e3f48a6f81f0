"""BaseCheckpointSaver: the base class of savers that programs write, with LangGraph's interface.

A class written for LangGraph's base needs only another import. Graphs use it through an adapter,
see `savers/foreign`.
"""

import datetime as dt
from abc import ABCMeta
from collections.abc import AsyncIterator, Generator, Iterator, Mapping, Sequence
from copy import copy
from functools import partial
from typing import Any, Generic, Self, TypeVar
from uuid import UUID

import anyio.to_thread

from actorgraph.api.pages import Pages
from actorgraph.bridging import BRIDGE
from actorgraph.codec import Codec
from actorgraph.codec.serializers import Named, SerializerProtocol, classes_named
from actorgraph.errors import EmptyChannelError
from actorgraph.runtime.clock import IDS
from actorgraph.values.checkpoint import (
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
)
from actorgraph.values.configs import Config
from actorgraph.values.constants import CHECKPOINT_FORMAT

V = TypeVar("V", int, float, str)


class BaseCheckpointSaver(Generic[V], metaclass=ABCMeta):
    """The base class of custom savers: implement `put`, `put_writes`, `list` and `get_tuple`.

    `get` may be implemented instead of `get_tuple`. Pass an instance as `checkpointer`. A graph
    calls blocking methods in a worker thread; implement the async ones to avoid that.
    `isinstance` is true of actorgraph's own savers, too.

    Args:
        serde: serializes values, for methods that need bytes; default that of the class, a `Codec`.
    """

    serde: SerializerProtocol = Codec()

    def __init__(self, *, serde: SerializerProtocol | None = None) -> None:
        own = type(self).serde is not BaseCheckpointSaver.serde
        self.serde = serde or (self.serde if own else _default_serializer())

    @property
    def config_specs(self) -> list[Any]:
        """Always empty; part of LangGraph's interface."""
        return []

    def get(self, config: Config) -> Checkpoint | None:
        """Return the checkpoint of `get_tuple` without its config, metadata and writes."""
        found = self.get_tuple(config)
        return None if found is None else found.checkpoint

    def get_tuple(self, config: Config) -> CheckpointTuple | None:
        """Return the addressed checkpoint, or the newest of the namespace; None without one.

        The default combines the class's `get` and `list`.
        """
        if type(self).get is BaseCheckpointSaver.get:
            raise NotImplementedError
        point = self.get(config)
        if point is None:
            return None
        place = dict(config.get("configurable") or {})
        place.pop("checkpoint_id", None)
        place.setdefault("checkpoint_ns", "")
        for found in self.list({"configurable": place}):
            if found.checkpoint["id"] == point["id"]:
                return found._replace(checkpoint=point)
        return CheckpointTuple({"configurable": {**place, "checkpoint_id": point["id"]}}, point, {})

    def list(
        self,
        config: Config | None,
        *,
        filter: Mapping[str, Any] | None = None,
        before: Config | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """List checkpoints, newest first: of a thread, and of a namespace if the config has one.

        A graph checks the results against `filter` and `before` again.
        """
        raise NotImplementedError

    def put(
        self,
        config: Config,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> Any:
        """Store a checkpoint whose parent is the one that `config` addresses; return its config."""
        raise NotImplementedError

    def put_writes(
        self, config: Config, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store pending writes of a task of the addressed checkpoint."""
        raise NotImplementedError

    def delete_thread(self, thread_id: str) -> None:
        """Remove everything of a thread."""
        raise NotImplementedError

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Remove what these runs stored."""
        raise NotImplementedError

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread to one without checkpoints."""
        raise NotImplementedError

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Remove the history of threads."""
        raise NotImplementedError

    async def aget(self, config: Config) -> Checkpoint | None:
        """Run `get` in a worker thread."""
        return await anyio.to_thread.run_sync(self.get, config)

    async def aget_tuple(self, config: Config) -> CheckpointTuple | None:
        """Run `get_tuple` in a worker thread."""
        return await anyio.to_thread.run_sync(self.get_tuple, config)

    def alist(
        self,
        config: Config | None,
        *,
        filter: Mapping[str, Any] | None = None,
        before: Config | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Run `list` in a worker thread."""
        ended = False

        def collect() -> Sequence[CheckpointTuple]:
            return [*self.list(config, filter=filter, before=before, limit=limit)]

        async def page() -> Sequence[CheckpointTuple]:
            nonlocal ended
            found = [] if ended else await anyio.to_thread.run_sync(collect)
            ended = True
            return found

        return Pages(page)

    async def aput(
        self,
        config: Config,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> Any:
        """Run `put` in a worker thread."""
        return await anyio.to_thread.run_sync(self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: Config, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Run `put_writes` in a worker thread."""
        await anyio.to_thread.run_sync(self.put_writes, config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        """Run `delete_thread` in a worker thread."""
        await anyio.to_thread.run_sync(self.delete_thread, thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Run `delete_for_runs` in a worker thread."""
        await anyio.to_thread.run_sync(self.delete_for_runs, run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Run `copy_thread` in a worker thread."""
        await anyio.to_thread.run_sync(self.copy_thread, source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Run `prune` in a worker thread."""
        await anyio.to_thread.run_sync(partial(self.prune, thread_ids, strategy=strategy))

    def get_delta_channel_history(
        self, *, config: Config, channels: Sequence[str]
    ) -> Mapping[str, Any]:
        """Return what DeltaChannels are folded from, above the addressed checkpoint.

        Returns: channel -> {"writes": its writes as (task id, channel, value), oldest first;
            "seed": the nearest stored value, absent if no ancestor has one}.
        """
        walk = _history(config, channels)
        try:
            place = next(walk)
            while True:
                place = walk.send(self.get_tuple(place))
        except StopIteration as end:
            return end.value

    async def aget_delta_channel_history(
        self, *, config: Config, channels: Sequence[str]
    ) -> Mapping[str, Any]:
        """`get_delta_channel_history` by `aget_tuple`."""
        walk = _history(config, channels)
        try:
            place = next(walk)
            while True:
                place = walk.send(await self.aget_tuple(place))
        except StopIteration as end:
            return end.value

    def with_allowlist(self, extra_allowlist: Named) -> Self:
        """Return a copy of the saver whose serializer stores and reads more classes.

        Args:
            extra_allowlist: classes, or (module, name) of them. A serializer without an
                allow-list stays as it is.
        """
        serde: Any = self.serde
        if isinstance(serde, Codec):
            serde = serde.with_types(classes_named(extra_allowlist))
        elif hasattr(serde, "with_msgpack_allowlist"):
            serde = serde.with_msgpack_allowlist(extra_allowlist)
        if serde is self.serde:
            return self
        made = copy(self)
        made.serde = serde
        return made

    def get_next_version(self, current: V | None, channel: None = None) -> Any:
        """Return the version after this one; the first is 1.

        Override it to use strings as versions; the type is that of what this returns.
        """
        if isinstance(current, str):
            raise NotImplementedError
        return 1 if current is None else current + 1


def _default_serializer() -> SerializerProtocol:
    """Return a serializer for one saver; over `actorgraph.compat` one that reads LangGraph's."""
    theirs: SerializerProtocol | None = BRIDGE.default_serializer()
    return Codec() if theirs is None else theirs


def _history(
    config: Config, channels: Sequence[str]
) -> Generator[Config, CheckpointTuple | None, Mapping[str, Any]]:
    """Walk up from a checkpoint: yields the config of each to read, and takes the tuples."""
    writes: dict[str, list[Any]] = {channel: [] for channel in channels}
    seeds: dict[str, Any] = {}
    found = (yield config) if channels else None
    while found is not None and found.parent_config and len(seeds) < len(writes):
        found = yield found.parent_config
        if found is None:
            break
        for write in reversed(found.pending_writes or ()):
            if write[1] in writes and write[1] not in seeds:
                writes[write[1]].append(write)
        values = found.checkpoint["channel_values"]
        seeds |= {c: values[c] for c in writes if c in values and c not in seeds}
    return {
        channel: {"writes": own[::-1], **({"seed": seeds[channel]} if channel in seeds else {})}
        for channel, own in writes.items()
    }


def empty_checkpoint() -> Checkpoint:
    """Return a checkpoint without values, from before the first input."""
    return Checkpoint(
        v=CHECKPOINT_FORMAT,
        id=str(uuid6(clock_seq=-2)),
        ts=dt.datetime.now(dt.UTC).isoformat(),
        channel_values={},
        channel_versions={},
        versions_seen={},
        updated_channels=None,
    )


def create_checkpoint(
    checkpoint: Checkpoint,
    channels: Mapping[str, Any] | None,
    step: int,
    *,
    id: str | None = None,
) -> Checkpoint:
    """Return the checkpoint after this one, with the current values of channels.

    Args:
        checkpoint: the previous one.
        channels: channel -> an object with `checkpoint()`; None keeps the previous values. A
            channel without a version, or an empty one, is left out.
        step: the superstep; part of a new id.
        id: its id; default a new one.
    """
    values = checkpoint["channel_values"]
    if channels is not None:
        values = {}
        for name, channel in channels.items():
            if name in checkpoint["channel_versions"]:
                try:
                    values[name] = channel.checkpoint()
                except EmptyChannelError:
                    continue
    return Checkpoint(
        v=CHECKPOINT_FORMAT,
        id=id or str(uuid6(clock_seq=step)),
        ts=dt.datetime.now(dt.UTC).isoformat(),
        channel_values=values,
        channel_versions=checkpoint["channel_versions"],
        versions_seen=checkpoint["versions_seen"],
        updated_channels=None,
    )


def get_checkpoint_id(config: Config) -> str | None:
    """Return the checkpoint id of a config; None if it addresses the newest."""
    return config["configurable"].get("checkpoint_id")


def uuid6(node: int | None = None, clock_seq: int | None = None) -> UUID:
    """Return a time-ordered id, greater than every other that this process has made.

    Args:
        node: 48 bits; default this process's own.
        clock_seq: the clock sequence, modulo 2^14: the superstep. Default 0.
    """
    made = IDS.checkpoint(clock_seq or 0, None)
    if node is not None:
        made = made[:10] + (node & 0xFFFFFFFFFFFF).to_bytes(6, "big")
    return UUID(bytes=bytes(made))
