"""Giving a thread's newest checkpoints the values of their DeltaChannels, before a prune."""

from typing import Any, cast

from actorgraph.api.compiled import CompiledBase, Target
from actorgraph.channels import EMPTY
from actorgraph.codec.places import value_at
from actorgraph.codec.records import decode_record
from actorgraph.errors import InvalidConfigError
from actorgraph.runtime.hosting import Host
from actorgraph.runtime.launch import Address
from actorgraph.runtime.runs import load
from actorgraph.values.commits import ListCheckpoints, StoredCheckpoint
from actorgraph.values.retention import HoldWhole


def graph_of(given: object) -> CompiledBase:
    """The graph that knows how a thread's values are folded.

    Raises:
        InvalidConfigError: it is none.
    """
    if isinstance(given, CompiledBase):
        return given
    raise InvalidConfigError(
        f"materialize={given!r} is no compiled graph",
        do="pass the graph whose threads these are: it has the reducers of the DeltaChannels",
    )


async def materialize(graph: CompiledBase, host: Host, thread_id: str) -> None:
    """Let the newest checkpoint of each namespace hold its values whole.

    What they say stays the same. A namespace that isn't the graph's, nor that of a graph inside
    of it, is left as it is, and so keeps the ancestors that it needs.
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
        at: Target = target("prune()", {"configurable": place})
        if at.declared or not namespace:
            await _hold_whole(at, host, Address(thread_id, namespace, head.row.id), deltas)


async def _hold_whole(at: Target, host: Host, address: Address, deltas: Any) -> None:
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
