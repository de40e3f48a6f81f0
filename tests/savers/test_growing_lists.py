"""Growing lists: stored as ranges of items, O(n) bytes, right on every branch."""

import sqlite3
from operator import add
from typing import Annotated, TypedDict

import pytest

from actorgraph import END, START, SqliteSaver, StateGraph
from tests.support.graphs import at, history

pytestmark = [pytest.mark.every_saver, pytest.mark.every_loop]


class Log(TypedDict, total=False):
    """A list that grows by items of a hundred characters."""

    items: Annotated[list[str], add]


def item(number: int) -> str:
    return f"{number:0100}"


def growing(steps: int, per_step: int, saver):
    """A graph that adds `per_step` items in each of `steps` supersteps."""

    async def grow(state):
        start = len(state["items"])
        return {"items": [item(start + i) for i in range(per_step)]}

    builder = StateGraph(Log).add_node("grow", grow).add_edge(START, "grow")
    most = steps * per_step
    builder.add_conditional_edges(
        "grow", lambda s: "grow" if len(s["items"]) < most else END, ["grow", END]
    )
    return builder.compile(checkpointer=saver)


def stored(path, table: str) -> tuple[int, int]:
    """Rows and bytes of a table's payloads."""
    queries = {
        "ranges": "SELECT count(*), sum(length(payload)) FROM ranges",
        "writes": "SELECT count(*), sum(length(payload)) FROM writes",
        "blobs": "SELECT count(*), coalesce(sum(length(payload)), 0) FROM blobs",
    }
    connection = sqlite3.connect(path)
    try:
        return connection.execute(queries[table]).fetchone()
    finally:
        connection.close()


@pytest.mark.promise("C1", "C26")
async def test_two_thousand_items_take_linear_space(tmp_path):
    """
    A list of 2,000 items, grown one superstep at a time, is stored about once.
    """
    path = tmp_path / "runs.db"
    async with SqliteSaver(path, synchronous="OFF") as saver:
        graph = growing(200, 10, saver)
        await graph.ainvoke({}, at(), durability="async")
    async with SqliteSaver(path) as saver:
        loaded = (await growing(200, 10, saver).aget_state(at())).values["items"]
    rows, size = stored(path, "ranges")
    _, blobs = stored(path, "blobs")

    assert loaded == [item(n) for n in range(2_000)]
    assert size + blobs < 2 * 2_000 * 100
    assert rows < 60


@pytest.mark.promise("S065", "S066")
async def test_every_checkpoint_of_a_growing_list_loads(saver):
    """
    Merging rows changes no older checkpoint: each still has its own length.
    """
    graph = growing(120, 3, saver)
    await graph.ainvoke({}, at(), durability="async")

    lengths = [len(s.values["items"]) for s in await history(graph, at())]

    assert lengths == [*range(360, -1, -3), 0]


@pytest.mark.one_loop
@pytest.mark.parametrize(
    "middle", [32, 33, *(pytest.param(n, marks=pytest.mark.long) for n in (1, 100))]
)
async def test_a_fork_from_the_middle_leaves_both_branches_right(store, middle):
    """
    A list forked at any length goes on by itself on each branch, also after reopening.
    """
    async with store.saver() as saver:
        graph = growing(110, 1, saver)
        await graph.ainvoke({}, at(), durability="async")
        trunk = (await graph.aget_state(at())).config
        found = next(s for s in await history(graph, at()) if len(s.values["items"]) == middle)
        fork = await graph.aupdate_state(found.config, {"items": ["fork"]}, as_node="grow")
        await graph.ainvoke(None, fork)
    async with store.again() as saver:
        graph = growing(110, 1, saver)
        branch = (await graph.aget_state(at())).values["items"]
        kept = (await graph.aget_state(trunk)).values["items"]
        # The trunk goes on, too, after the branch has grown.
        both = await graph.aupdate_state(trunk, {"items": ["end"]}, as_node="grow")
        trunk_end = (await graph.aget_state(both)).values["items"]
        again = (await graph.aget_state(fork)).values["items"]

    plain = [item(n) for n in range(110)]
    assert kept == plain
    assert branch == [*plain[:middle], "fork", *plain[middle + 1 :]]
    assert trunk_end == [*plain, "end"]
    assert again == [*plain[:middle], "fork"]


async def test_a_list_that_is_replaced_or_cut_is_stored_right(saver):
    """
    A list under a reducer that may cut or reorder comes back as it was at each step.
    """

    def newest_three(old: list, new: list) -> list:
        return [*old, *new][-3:]

    class Window(TypedDict, total=False):
        items: Annotated[list, newest_three]

    async def grow(state):
        return {"items": [len(state["items"]), "x"]}

    builder = StateGraph(Window)
    builder.add_sequence([(f"n{i}", grow) for i in range(10)])
    builder.add_edge(START, "n0")
    graph = builder.compile(checkpointer=saver)

    result = await graph.ainvoke({"items": ["a", "b"]}, at())
    found = await history(graph, at())

    assert found[0].values == result
    assert [s.values["items"] for s in found[:2]] == [["x", 3, "x"], ["x", 3, "x"]]
    assert found[-2].values["items"] == ["a", "b"]


@pytest.mark.langgraph("L22", "L105")
async def test_a_list_changed_in_place_is_stored_as_it_was(saver):
    """
    A reducer that appends in place can't change what was handed over before.
    """

    def in_place(old: list, new: list) -> list:
        old.extend(new)
        return old

    class Log2(TypedDict, total=False):
        items: Annotated[list, in_place]

    async def grow(state):
        return {"items": [len(state["items"])]}

    builder = StateGraph(Log2)
    builder.add_sequence([(f"n{i}", grow) for i in range(6)])
    builder.add_edge(START, "n0")
    graph = builder.compile(checkpointer=saver)
    await graph.ainvoke({"items": ["a"]}, at(), durability="async")

    found = [s.values["items"] for s in await history(graph, at())]

    assert found[:7] == [["a", *range(1, n + 1)] for n in range(6, -1, -1)]


async def test_the_ledger_refers_to_the_list_instead_of_repeating_it(tmp_path):
    """
    Items that a task wrote are in the list's rows and, at most once more, in the ledger.
    """
    path = tmp_path / "runs.db"
    async with SqliteSaver(path, synchronous="OFF") as saver:
        await growing(100, 5, saver).ainvoke({}, at(), durability="async")

    _, ledger = stored(path, "writes")
    assert ledger < 1.5 * 500 * 100
