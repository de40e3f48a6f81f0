"""Addresses in configs: a thread, a checkpoint, and the graph or subgraph that it belongs to.

The rows of a subgraph stay in the namespace in which they were stored, also if a node on the way
to it has another name since. So the address of one is followed to its rows before it is read or
changed: by the order in which a run looks for them.
"""

from collections.abc import Callable
from typing import Never, TypeVar

import msgspec

from actorgraph.api.graph.subgraphs import Subgraph, graphs_on
from actorgraph.api.pages import Pages
from actorgraph.codec import Codec
from actorgraph.errors import InvalidConfigError
from actorgraph.plan.plan import Plan
from actorgraph.ports import Saver
from actorgraph.runtime.run.launch import Address
from actorgraph.runtime.saver.hosting import Host, host_of
from actorgraph.runtime.saver.stored_namespaces import stored_namespace
from actorgraph.superstep.nesting import names_of_namespace, nodes_of, stable_namespace

T = TypeVar("T")


class AddressedGraph(msgspec.Struct, frozen=True):
    """The thread, checkpoint and graph that a config addresses, to be read or changed.

    Attributes:
        host: of the saver.
        codec: decodes and encodes the graph's values.
        plan: of the graph or subgraph.
        address: thread, namespace and checkpoint.
        declared: whether `plan` belongs to the namespace; an unknown namespace is read with the
            root graph's plan.
        namespaces: those that may hold its rows, if a node on the way was renamed; the one of
            `address` first. One for any other subgraph, none for the root.
        lost: of an undeclared one the plan whose nodes lack the next name, and that name; None if
            a node has it, which may run a graph that isn't known.
    """

    host: Host
    codec: Codec
    plan: Plan
    address: Address
    declared: bool
    namespaces: tuple[str, ...] = ()
    lost: tuple[Plan, str] | None = None


def addressed_below(graph: Subgraph, host: Host, address: Address) -> AddressedGraph:
    """Find the subgraph at an address.

    Args:
        graph: the root.
        host: of the root's saver.
    """
    nodes = nodes_of(address.namespace)
    way = graphs_on(graph, nodes)
    names = [one.plan.renames.names(node) for one, node in zip(way, nodes, strict=False)]
    found = way[-1]
    if len(way) <= len(nodes):
        name = nodes[len(way) - 1]
        known = name in found.plan.nodes or name in found.plan.renames.nodes
        return AddressedGraph(
            host,
            graph.codec_for(host.saver),
            graph.plan,
            address,
            declared=False,
            namespaces=names_of_namespace(address.namespace, names),
            lost=None if known else (found.plan, name),
        )
    if isinstance(found.checkpointer, Saver):
        host = host_of(found.checkpointer)
    # A stateful subgraph keeps one state per node, not per task: no task ids in its namespace.
    if found.checkpointer is True:
        address = msgspec.structs.replace(address, namespace=stable_namespace(address.namespace))
    return AddressedGraph(
        host,
        found.codec_for(host.saver),
        found.plan,
        address,
        declared=True,
        namespaces=names_of_namespace(address.namespace, names),
    )


async def at_its_rows(at: AddressedGraph) -> AddressedGraph:
    """Return the address with the namespace that has the rows; the given one if none has any.

    Raises:
        InvalidConfigError: no node has the name of a namespace without rows.
    """
    if len(at.namespaces) < 2 and at.lost is None:
        return at
    place = at.address
    found = await stored_namespace(at.host, place.thread_id, at.namespaces, place.checkpoint)
    if found is None and at.lost is not None:
        refuse_unknown(at)
    if found in (None, place.namespace):
        return at
    return msgspec.structs.replace(at, address=msgspec.structs.replace(place, namespace=found))


async def to_be_changed(at: AddressedGraph) -> AddressedGraph:
    """Return the address of a change, as `at_its_rows`.

    Raises:
        InvalidConfigError: the namespace is that of no known subgraph.
    """
    if not at.declared:
        refuse_unknown(at)
    return await at_its_rows(at)


def pages_at(at: AddressedGraph, read: Callable[[AddressedGraph], Pages[T]]) -> Pages[T]:
    """Return the pages that are read of an address, as `at_its_rows`."""
    if len(at.namespaces) < 2 and at.lost is None:
        return read(at)
    pages: list[Pages[T]] = []

    async def page() -> list[T]:
        if not pages:
            pages.append(read(await at_its_rows(at)))
        return await pages[0].page()

    return Pages(page)


def refuse_unknown(at: AddressedGraph) -> Never:
    """Refuse an address of no known subgraph.

    Raises:
        InvalidConfigError: always.
    """
    plan, name = at.lost or (at.plan, None)
    where = "" if name is None else f": no node is named {name!r}"
    known = ", ".join(map(repr, sorted(plan.subgraphs))) or "none"
    raise InvalidConfigError(
        f"Subgraph {at.address.namespace!r} not found in graph {plan.title!r}{where}",
        do=f"nodes that run a subgraph: {known}; take the config from "
        "get_state(config, subgraphs=True).tasks[i].state.config, or give a renamed node a "
        "Migration(nodes={'old': 'new'})",
    )
