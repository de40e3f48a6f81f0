"""Store a thread's newest checkpoints with the whole values of their DeltaChannels.

Done before a prune, so that no older checkpoint is needed to rebuild them.
"""

from typing import Any, Protocol, cast, runtime_checkable

from actorgraph.channels import EMPTY
from actorgraph.codec.places import value_at
from actorgraph.codec.records import decode_record
from actorgraph.errors import InvalidConfigError
from actorgraph.plan.graph import Plan
from actorgraph.runtime.hosting import Host
from actorgraph.runtime.launch import Address
from actorgraph.runtime.runs import load
from actorgraph.values.commits import ListCheckpoints, StoredCheckpoint
from actorgraph.values.configs import Config
from actorgraph.values.retention import HoldWhole


@runtime_checkable
class FoldingGraph(Protocol):
    """A compiled graph: it has the reducers that DeltaChannels are folded with.

    A protocol, because a compiled graph knows savers and a saver must not import the graph.
    """

    plan: Plan

    def _target(self, what: str, config: Config) -> Any: ...


def check_folding_graph(given: object) -> FoldingGraph:
    """Check the argument `materialize`.

    Raises:
        InvalidConfigError: it is not a compiled graph.
    """
    if isinstance(given, FoldingGraph):
        return given
    raise InvalidConfigError(
        f"materialize must be a compiled graph, got {given!r}",
        do="pass the graph whose threads these are: it has the reducers of the DeltaChannels",
    )


async def store_whole_values(graph: FoldingGraph, host: Host, thread_id: str) -> None:
    """Store whole values in the newest checkpoint of each namespace; the values don't change.

    A namespace of neither the graph nor a subgraph is left as it is, and so keeps the ancestors
    that it needs.
    """
    rows: list[StoredCheckpoint] = await host.reader.ask(ListCheckpoints(thread_id, bare=True))
    heads: dict[str, StoredCheckpoint] = {}
    for stored in rows:
        heads.setdefault(stored.namespace, stored)
    for namespace, head in heads.items():
        deltas = decode_record(head.row.record).deltas
        if not deltas:
            continue
        target = graph._target  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - a peer
        place = {"thread_id": thread_id, "checkpoint_ns": namespace}
        at = target("prune()", {"configurable": place})
        if at.declared or not namespace:
            await _store_whole(at, host, Address(thread_id, namespace, head.row.id), deltas)


async def _store_whole(at: Any, host: Host, address: Address, deltas: Any) -> None:
    found = await load(host, at.codec, at.plan, address, nested=True)
    known = {} if found.restored is None else found.restored.values
    id_ = cast("bytes", address.checkpoint)
    version = HoldWhole(address.thread_id, address.namespace, id_, {}).version
    values: dict[str, bytes] = {}
    for channel in set(deltas).intersection(known, at.plan.channels):
        value = at.plan.channels[channel].dump(known[channel])
        if value is not EMPTY:
            place = value_at(address.thread_id, address.namespace, channel, version)
            values[channel] = at.codec.encode(value, f"state[{channel!r}]", place)
    if values:
        size = sum(map(len, values.values()))
        await host.writer.store(HoldWhole(address.thread_id, address.namespace, id_, values, size))
