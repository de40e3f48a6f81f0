"""The base of savers that programs write themselves, and the shapes that such a saver handles.

A class made for LangGraph's base needs only another import. See `savers/foreign` for what a graph
makes of it.
"""

import datetime as dt
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar
from uuid import UUID

import anyio.to_thread

from actorgraph.api.pages import Pages
from actorgraph.codec import Codec
from actorgraph.codec.serializers import SerializerProtocol
from actorgraph.errors import EmptyChannelError
from actorgraph.runtime.clock import IDS
from actorgraph.values.checkpoint import (
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
)
from actorgraph.values.constants import CHECKPOINT_FORMAT

V = TypeVar("V", int, float, str)
Config = Mapping[str, Any]


class BaseCheckpointSaver(Generic[V]):
    """The base class of a saver of one's own: write `put`, `put_writes`, `list` and `get_tuple`.

    `get` instead of `get_tuple` will do. Pass an object of it as `checkpointer`. Where a graph
    waits, blocking methods run in a worker thread; write the async ones to do without.

    Args:
        serde: makes bytes of values, for those methods that want to; default a `Codec`.
    """

    def __init__(self, *, serde: SerializerProtocol | None = None) -> None:
        self.serde: SerializerProtocol = serde or Codec()

    @property
    def config_specs(self) -> list[Any]:
        """Nothing is configured."""
        return []

    def get(self, config: Config) -> Checkpoint | None:
        """The checkpoint of `get_tuple`."""
        found = self.get_tuple(config)
        return None if found is None else found.checkpoint

    def get_tuple(self, config: Config) -> CheckpointTuple | None:
        """The addressed checkpoint, or the newest of the namespace; None if there is none.

        Without one of the class's own it is made of its `get` and `list`.
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
        """Checkpoints, newest first: of a thread, and a namespace if the config names one.

        A graph also sorts out itself what doesn't fit `filter` and `before`.
        """
        raise NotImplementedError

    def put(
        self,
        config: Config,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> Any:
        """Store a checkpoint whose parent is the one that `config` addresses."""
        raise NotImplementedError

    def put_writes(
        self, config: Config, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store writes of a task beside the addressed checkpoint."""
        raise NotImplementedError

    def delete_thread(self, thread_id: str) -> None:
        """Remove everything of a thread."""
        raise NotImplementedError

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Remove what some runs stored."""
        raise NotImplementedError

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread to one that has no checkpoints."""
        raise NotImplementedError

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Remove the history of threads."""
        raise NotImplementedError

    async def aget(self, config: Config) -> Checkpoint | None:
        """`get` in a worker thread."""
        return await anyio.to_thread.run_sync(self.get, config)

    async def aget_tuple(self, config: Config) -> CheckpointTuple | None:
        """`get_tuple` in a worker thread."""
        return await anyio.to_thread.run_sync(self.get_tuple, config)

    def alist(
        self,
        config: Config | None,
        *,
        filter: Mapping[str, Any] | None = None,
        before: Config | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """`list` in a worker thread."""
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
        """`put` in a worker thread."""
        return await anyio.to_thread.run_sync(self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: Config, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """`put_writes` in a worker thread."""
        await anyio.to_thread.run_sync(self.put_writes, config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        """`delete_thread` in a worker thread."""
        await anyio.to_thread.run_sync(self.delete_thread, thread_id)

    def get_next_version(self, current: V | None, channel: None = None) -> Any:
        """The version after this one; the first is 1. Versions are stored in its type.

        A class whose versions are text overrides it.
        """
        if isinstance(current, str):
            raise NotImplementedError
        return 1 if current is None else current + 1


def empty_checkpoint() -> Checkpoint:
    """A checkpoint of nothing, from before the first input."""
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
    """The checkpoint after this one, with what channels hold now.

    Args:
        channels: channel -> an object with `checkpoint()`; None takes the values over. A channel
            that has no version, or is empty, is left out.
        step: its id carries it.
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
    """The checkpoint that a config names; None where it means the newest."""
    return config["configurable"].get("checkpoint_id")


def uuid6(node: int | None = None, clock_seq: int | None = None) -> UUID:
    """A time-ordered id, above every one that this process has made.

    Args:
        node: 48 bits; default this process's own.
        clock_seq: what its clock sequence says, modulo 2^14: the step. Default 0.
    """
    made = IDS.checkpoint(clock_seq or 0, None)
    if node is not None:
        made = made[:10] + (node & 0xFFFFFFFFFFFF).to_bytes(6, "big")
    return UUID(bytes=bytes(made))
