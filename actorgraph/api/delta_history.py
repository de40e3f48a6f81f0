"""Read the writes that make a DeltaChannel's value, for tools that read a saver directly."""

from collections.abc import Sequence
from typing import Any, NotRequired, TypedDict, cast

from actorgraph.api.blocking import block_on
from actorgraph.api.config import address_of
from actorgraph.api.saver_methods import NO_GRAPH
from actorgraph.codec import Codec
from actorgraph.codec.held import held_values
from actorgraph.codec.placement import Placement
from actorgraph.codec.records import decode_record
from actorgraph.codec.restore import stored_write
from actorgraph.ports import Saver
from actorgraph.runtime.hosting import host_of
from actorgraph.superstep.deltas import in_order
from actorgraph.values.commits import LoadCheckpoint, Loaded, StoredCheckpoint
from actorgraph.values.configs import Config

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


class DeltaHistoryMethods:
    """`aget_delta_channel_history` and its blocking version."""

    codec: Codec

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
        query = LoadCheckpoint(place.thread_id, place.namespace, place.checkpoint)
        at = await self._stored(query)
        while left and at is not None and at.row.parent is not None:
            folds = decode_record(at.row.record).folds
            query = LoadCheckpoint(place.thread_id, place.namespace, at.row.parent)
            at = await self._stored(query)
            if at is None:
                break
            if folds:
                for name in left:
                    found[name]["writes"][:0] = self._writes(at, name)
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

    async def _stored(self, query: LoadCheckpoint) -> StoredCheckpoint | None:
        loaded: Loaded = await host_of(cast("Saver", self)).reader.ask(query)
        return loaded.checkpoint

    def _writes(self, stored: StoredCheckpoint, channel: str) -> list[PendingWrite]:
        rows = in_order(stored_write(self.codec, stored, row) for row in stored.ledger)
        return [(row.task, name, v) for row in rows for name, v in row.writes if name == channel]
