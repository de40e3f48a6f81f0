"""SimpleSaver: put, get and list whole states, for programs without a graph."""

from collections.abc import Mapping
from typing import Any

import msgspec

from actorgraph.api.blocking import block_on
from actorgraph.api.savers.base_saver import empty_checkpoint, uuid6
from actorgraph.errors import CheckpointNotFoundError
from actorgraph.values.checkpoint import CheckpointConfig, CheckpointSource, CheckpointSummary


class SimpleCheckpoint(msgspec.Struct, frozen=True):
    """A state of a thread, to store or as it was read.

    Attributes:
        thread_id: the thread.
        values: the state.
        checkpoint_id: set when it is stored.
        parent_id: the checkpoint before it; when it is stored, None means the newest.
        namespace: default the root's.
        source: what made it.
        metadata: JSON values.
    """

    thread_id: str
    values: dict[str, Any]
    checkpoint_id: str | None = None
    parent_id: str | None = None
    namespace: str = ""
    source: CheckpointSource = CheckpointSource.UPDATE
    metadata: dict[str, Any] = {}


class SimpleSaver:
    """Stores, reads and lists whole states in a saver of actorgraph, which graphs may use too.

    Args:
        saver: such as `SqliteSaver`, open or not.
    """

    def __init__(self, saver: Any) -> None:
        self.saver = saver

    async def aput(self, checkpoint: SimpleCheckpoint) -> str:
        """Store a state as the newest of its thread and namespace.

        Returns: its id.
        Raises:
            CheckpointNotFoundError: the thread has no checkpoint `parent_id`.
            SerializationError: a value can't be stored.
        """
        namespace, parent = checkpoint.namespace, checkpoint.parent_id
        where = CheckpointConfig(checkpoint.thread_id, parent, namespace).config
        found = await self.saver.aget_tuple(where)
        if found is None and parent is not None:
            raise CheckpointNotFoundError(
                f"thread {checkpoint.thread_id!r} has no checkpoint {parent}",
                do="take the id from list(), or leave parent_id out",
            )
        # A version must be above those of every branch. The newest checkpoint has the highest,
        # so its versions are looked at even if another one is the parent.
        head = found if parent is None else await self.saver.aget_tuple(_newest(checkpoint))
        above = [] if head is None else head.checkpoint["channel_versions"].values()
        old = {} if found is None else found.checkpoint["channel_versions"]
        step = -1 if found is None else int(found.metadata["step"]) + 1
        version = 1 + max([*above, *old.values()], default=0)
        point = {
            **empty_checkpoint(),
            "id": str(uuid6(clock_seq=step)),
            "channel_values": checkpoint.values,
            "channel_versions": dict.fromkeys([*old, *checkpoint.values], version),
            "updated_channels": sorted(checkpoint.values),
        }
        metadata = {**checkpoint.metadata, "source": checkpoint.source.value, "step": step}
        config = where if found is None else found.config
        stored = await self.saver.aput(config, point, metadata, point["channel_versions"])
        return stored["configurable"]["checkpoint_id"]

    async def aget(
        self, thread_id: str, checkpoint_id: str | None = None, *, namespace: str = ""
    ) -> SimpleCheckpoint | None:
        """Return a state of a thread; without an id the newest. None if absent."""
        where = CheckpointConfig(thread_id, checkpoint_id, namespace)
        found = await self.saver.aget_tuple(where.config)
        if found is None:
            return None
        metadata: Mapping[str, Any] = found.metadata
        parent = ((found.parent_config or {}).get("configurable") or {}).get("checkpoint_id")
        return SimpleCheckpoint(
            thread_id=thread_id,
            values=found.checkpoint["channel_values"],
            checkpoint_id=found.checkpoint["id"],
            parent_id=parent,
            namespace=namespace,
            source=CheckpointSource.parse(metadata["source"]) or CheckpointSource.UPDATE,
            metadata={k: v for k, v in metadata.items() if k not in _OWN},
        )

    async def alist(self, thread_id: str) -> list[CheckpointSummary]:
        """Return summaries of a thread's checkpoints, newest first; values are not read."""
        return await self.saver.alist_metadata(thread_id, order="newest")

    def put(self, checkpoint: SimpleCheckpoint) -> str:
        """Blocking version of `aput`."""
        return block_on("aput", lambda: self.aput(checkpoint))

    def get(
        self, thread_id: str, checkpoint_id: str | None = None, *, namespace: str = ""
    ) -> SimpleCheckpoint | None:
        """Blocking version of `aget`."""
        return block_on("aget", lambda: self.aget(thread_id, checkpoint_id, namespace=namespace))

    def list(self, thread_id: str) -> list[CheckpointSummary]:
        """Blocking version of `alist`."""
        return block_on("alist", lambda: self.alist(thread_id))


_OWN = frozenset({"source", "step", "parents", "run_id"})


def _newest(checkpoint: SimpleCheckpoint) -> dict[str, Any]:
    return CheckpointConfig(checkpoint.thread_id, None, checkpoint.namespace).config
