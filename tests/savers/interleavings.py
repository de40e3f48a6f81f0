"""Removals, copies and prunes at random moments of a run, on a state that checks itself.

Every node writes the same item to a growing list and to a DeltaChannel, and its name to a text
that is stored whole. So each checkpoint says whether its rows are all there and its own: the lists
are equal, and the text ends with the last item. A stateful graph inside has the same.
"""

from operator import add
from random import Random
from typing import Annotated, Any, TypedDict

import anyio
import anyio.lowlevel

from actorgraph import END, START, ConflictError, StateGraph
from actorgraph.channels import DeltaChannel
from tests.support.delta_histories import joined
from tests.support.gates import PATIENCE_S
from tests.support.graphs import at, history

PAD = "." * 300
"""The size that makes the text a row of its own."""


KINDS = ["delete", "prune", "last", "copy", "expire", "sweep", "run", "points"]


class Checked(TypedDict, total=False):
    """The same in three ways."""

    plain: Annotated[list[str], add]
    folded: Annotated[list[str], DeltaChannel(joined, snapshot_frequency=3)]
    text: str


class Inner(TypedDict, total=False):
    """The state of the graph inside; it remembers earlier runs."""

    inner_plain: Annotated[list[str], add]
    inner_folded: Annotated[list[str], DeltaChannel(joined, snapshot_frequency=4)]


def graph_of(saver: Any, pause: Any) -> Any:
    """In -> a -> inner (one -> two) -> b -> c.

    Args:
        pause: awaited in each node.
    """

    def node(name: str) -> Any:
        async def run(state: Checked) -> Any:
            await pause(name)
            item = f"{name}{len(state.get('plain', []))}"
            return {"plain": [item], "folded": [item], "text": PAD + item}

        return run

    def inside(name: str) -> Any:
        async def run(state: Inner) -> Any:
            await pause(name)
            item = f"{name}{len(state.get('inner_plain', []))}"
            return {"inner_plain": [item], "inner_folded": [item]}

        return run

    inner = StateGraph(Inner)
    inner.add_node("one", inside("one")).add_node("two", inside("two"))
    inner.add_edge(START, "one").add_edge("one", "two").add_edge("two", END)
    below = inner.compile(checkpointer=True)

    async def calls(state: Checked) -> Any:
        await below.ainvoke({})
        return await node("inner")(state)

    builder = StateGraph(Checked)
    for name, action in (("a", node("a")), ("inner", calls), ("b", node("b")), ("c", node("c"))):
        builder.add_node(name, action)
    builder.add_edge(START, "a").add_edge("a", "inner").add_edge("inner", "b")
    builder.add_edge("b", "c").add_edge("c", END)
    return builder.compile(checkpointer=saver)


def check(values: Any) -> None:
    """A state is whole."""
    plain = values.get("plain", [])
    assert plain == values.get("folded", []), values
    assert not plain or values["text"] == PAD + plain[-1], values
    inner = values.get("inner_plain", [])
    assert inner == values.get("inner_folded", []), values


async def check_thread(saver: Any, graph: Any, thread: str) -> None:
    """Every checkpoint of a thread can be read, those of graphs inside too, and it goes on."""
    points = await history(graph, at(thread))
    for point in points:
        check(point.values)
    inside = [p async for p in saver.alist(at(thread)) if p.config["configurable"]["checkpoint_ns"]]
    for namespace in {p.config["configurable"]["checkpoint_ns"] for p in inside}:
        for point in await history(graph, at(thread, checkpoint_ns=namespace)):
            check(point.values)
    names = {point.config["configurable"]["checkpoint_id"] for point in points}
    for point in points:
        parent = (point.parent_config or {}).get("configurable", {}).get("checkpoint_id")
        assert parent is None or parent in names
    before = points[0].values.get("plain", []) if points else []
    done = await graph.ainvoke({"plain": ["in"], "folded": ["in"], "text": PAD + "in"}, at(thread))
    check(done)
    assert len(done["plain"]) >= 4
    assert done["plain"][: len(before)] == before or points[0].next


async def interleave(saver: Any, seed: int, thread: str) -> str:
    """One run with removals in its midst. Returns how it ended: "done" or "refused"."""
    choose = Random(seed)
    mode = choose.choice(["sync", "async", "exit"])
    entered, pausing = anyio.Event(), [False]

    async def pause(_: str) -> None:
        if pausing[0]:
            entered.set()
            for _ in range(choose.randrange(6)):
                await anyio.lowlevel.checkpoint()

    graph = graph_of(saver, pause)
    given = {"plain": ["in"], "folded": ["in"], "text": PAD + "in"}
    for _ in range(choose.randrange(3)):
        await graph.ainvoke(given, at(thread))
    points = await history(graph, at(thread))
    ended: list[str] = []
    pausing[0] = True
    some = choose.choice(points).config if points and choose.random() < 0.3 else None

    async def run() -> None:
        try:
            check(await graph.ainvoke(None if some else given, some or at(thread), durability=mode))
            ended.append("done")
        except ConflictError:
            ended.append("refused")
        finally:
            entered.set()

    with anyio.fail_after(PATIENCE_S):
        async with anyio.create_task_group() as group:
            group.start_soon(run)
            await entered.wait()
            deleted = await _operations(choose, saver, thread)
    pausing[0] = False
    if deleted:
        assert await saver.acount(thread) == 0
        assert [p async for p in saver.alist(at(thread))] == []
    for copy in (f"{thread}-0", f"{thread}-1", f"{thread}-2"):
        if await saver.acount(copy):
            await check_thread(saver, graph, copy)
    await check_thread(saver, graph, thread)
    return ended[0]


async def _operations(choose: Random, saver: Any, thread: str) -> bool:
    """A few random operations. Returns whether the last one that counts deleted the thread."""
    deleted = False
    for number in range(choose.randrange(1, 4)):
        for _ in range(choose.randrange(12)):
            await anyio.lowlevel.checkpoint()
        kind = choose.choice(
            ["delete", "prune", "last", "copy", "expire", "sweep", "run", "points"]
        )
        found = await saver.alist_metadata(thread)
        if kind == "delete":
            await saver.adelete_thread(thread)
            deleted = True
        elif kind == "prune":
            await saver.aprune([thread])
        elif kind == "last":
            await saver.aprune(thread, choose.randrange(1, 4))
        elif kind == "copy":
            await saver.acopy_thread(thread, f"{thread}-{number}")
        elif kind == "expire":
            await saver.aretention(0, choose.randrange(1, 3))
        elif kind == "sweep":
            await saver.avacuum()
        elif kind == "run" and found:
            await saver.adelete_by_run(thread, choose.choice(found).run_id or "none")
        elif kind == "points" and found:
            one = choose.choice(found)
            await saver.adelete_checkpoints(
                thread, [one.checkpoint_id], checkpoint_ns=one.checkpoint_ns
            )
    return deleted
