"""What a DeltaChannel's value is made of, for tools that read a saver directly."""

from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypedDict, cast

from actorgraph.api.blocking import block_on
from actorgraph.api.config import address_of
from actorgraph.codec import Codec
from actorgraph.codec.held import held_values
from actorgraph.codec.placement import Placement
from actorgraph.codec.records import decode_record
from actorgraph.codec.restore import stored_write
from actorgraph.plan.graph import Plan
from actorgraph.ports import Saver
from actorgraph.runtime.hosting import host_of
from actorgraph.superstep.deltas import in_order
from actorgraph.values.commits import LoadCheckpoint, Loaded, StoredCheckpoint

_NO_GRAPH = Plan(name="", graph_id="", channels={}, nodes={}, output_keys=(), state_keys=())
Config = Mapping[str, Any]
PendingWrite = tuple[str, str, Any]


class DeltaChannelHistory(TypedDict):
    """Where one channel's value comes from.

    `writes` are `(task id, channel, value)`, oldest first; `seed` is the value of the nearest
    ancestor that holds one. Without it the value begins with the type's first one.
    """

    writes: list[PendingWrite]
    seed: NotRequired[Any]


class DeltaHistoryMethods:
    """`get_delta_channel_history` over the port."""

    codec: Codec

    async def aget_delta_channel_history(
        self, *, config: Config, channels: Sequence[str]
    ) -> dict[str, DeltaChannelHistory]:
        """The seed and the writes that make the value of some channels at a checkpoint.

        It goes up from parent to parent, so another branch's writes are not among them. Those
        beside the checkpoint itself belong to the next superstep and are left out.

        Args:
            config: the checkpoint; the newest if it names none.
            channels: their names.
        Returns: an entry for each of them.
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
            seeds = held_values(self.codec, _NO_GRAPH, at, record.only(ends), Placement())
            for name, seed in seeds.items():
                found[name]["seed"] = seed
            left.difference_update(ends)
        return found

    def get_delta_channel_history(
        self, *, config: Config, channels: Sequence[str]
    ) -> dict[str, DeltaChannelHistory]:
        """`aget_delta_channel_history`, blocking."""
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
