"""A large value of an input is stored once, and everything that holds it has it whole."""

import random
import string
from functools import cache
from typing import Any, TypedDict

import psycopg
import pytest

from actorgraph import END, START, Codec, SqliteSaver, StateGraph
from actorgraph.values.commits import ListCheckpoints

pytestmark = [pytest.mark.every_saver, pytest.mark.every_loop]

STEPS = 8
CHARS = 300_000
ROOM = 120_000
"""Of what a database's tables, indexes and pages take besides their rows."""
STEP_BYTES_MAX = 2_500
BYTES_MAX = CHARS + ROOM + STEPS * STEP_BYTES_MAX

PG_SIZE = """
SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relkind = 'r' AND c.relname IN ('blobs', 'writes', 'runs')
"""


class State(TypedDict, total=False):
    document: Any
    note: Any
    count: int


@cache
def text(seed: int, size: int = CHARS) -> str:
    """Characters that no database makes much smaller."""
    return "".join(random.Random(seed).choices(string.printable[:94], k=size))


DOCUMENTS = {
    "text": text(1),
    "bytes": text(2).encode(),
    "nested": {"pages": [{"text": text(3 + n, CHARS // 10)} for n in range(10)]},
}


class Program:
    """Counts its steps; stops after some of them, as a process that dies would."""

    def __init__(self, saver: Any, *, branch: bool = False, steps: int = STEPS) -> None:
        self.stop_at = -1

        async def count(state: State) -> State:
            if state.get("count") == self.stop_at:
                raise RuntimeError
            return {"count": state.get("count", 0) + 1}

        builder = StateGraph(State).add_node("count", count)
        if branch:
            builder.add_conditional_edges(START, lambda state: "count", ["count"])
        else:
            builder.add_edge(START, "count")
        builder.add_conditional_edges(
            "count", lambda s: "count" if s["count"] % steps else END, ["count", END]
        )
        self.graph = builder.compile(checkpointer=saver)

    async def run(self, given: Any, durability: str = "sync") -> Any:
        return await self.graph.ainvoke(given, CONFIG, durability=durability)


CONFIG: Any = {"configurable": {"thread_id": "t"}, "recursion_limit": STEPS + 5}


async def size_of(store: Any, saver: Any) -> int:
    """The bytes of a closed store; of one in memory those of its rows."""
    if store.kind == "postgres":
        with psycopg.connect(store.url, autocommit=True) as connection:
            row = connection.execute(PG_SIZE, [store.schema]).fetchone()
            return 0 if row is None else row[0]
    if not store.on_disk:
        (found,) = await saver.query([ListCheckpoints("t")])
        blobs = {id(b): len(b) for point in found for b in point.blobs.values()}
        return sum(blobs.values()) + sum(len(r.payload) for p in found for r in p.ledger)
    return sum(part.stat().st_size for part in store.path.parent.rglob("*") if part.is_file())


@pytest.mark.one_loop
@pytest.mark.parametrize("branch", [False, True], ids=["edge", "branch"])
@pytest.mark.parametrize("document", DOCUMENTS.values(), ids=DOCUMENTS)
async def test_an_input_that_stays_takes_its_bytes_once(store, document, branch):
    """
    A large value that is given once and never changed is stored once, whatever follows.

    Behind a START that branches only what can't be changed meanwhile is shared.
    """
    copies = 3 if branch and isinstance(document, dict) else 1
    if store.kind == "jsonl" and isinstance(document, bytes):
        copies *= 4 / 3  # base64
    async with store.saver() as saver:
        if store.kind == "postgres":
            place = f"-c search_path={store.schema}"
            with psycopg.connect(store.url, autocommit=True, options=place) as connection:
                connection.execute("TRUNCATE blobs, writes, runs")  # what other tests have left
        await Program(saver, branch=branch).run({"document": document, "count": 0})
        open_size = await size_of(store, saver)
    size = await size_of(store, saver) if store.kind in {"sqlite", "jsonl"} else open_size
    assert CHARS // 2 < size < copies * BYTES_MAX  # PostgreSQL compresses


async def test_an_input_of_exit_mode_leaves_no_dead_pages(tmp_path):
    """
    The pages of the accepted input are used again by the values of the run's checkpoint.
    """
    async with SqliteSaver(tmp_path / "runs.db") as saver:
        await Program(saver).run({"document": text(1), "count": 0}, "exit")

    assert sum(part.stat().st_size for part in tmp_path.iterdir()) < BYTES_MAX


@pytest.mark.one_loop
@pytest.mark.parametrize("codec", [Codec(), Codec(keys={"k": b"k" * 32})], ids=["plain", "sealed"])
@pytest.mark.parametrize("document", DOCUMENTS.values(), ids=DOCUMENTS)
async def test_every_reader_has_the_whole_value(store, document, codec):
    """
    The state, each checkpoint of the history, the input's task, and what a new process reads.
    """
    given = {"note": "n", "document": document, "count": 0}
    async with store.saver(codec=codec) as saver:
        await Program(saver).run(given)
        await Program(saver).run({"document": text(9), "count": 0})
    async with again(store, codec) as saver:
        graph = Program(saver).graph
        history = [s async for s in graph.aget_state_history(CONFIG)]
        assert history[0].values == {"note": "n", "document": text(9), "count": STEPS}
        assert [s.values.get("document") for s in history[STEPS + 2 :]] == [
            *[document] * (STEPS + 1),
            None,
        ]
        inputs = [s for s in history if s.metadata["source"] == "input"]
        assert [s.tasks[0].result for s in inputs] == [{"document": text(9), "count": 0}, given]
        assert (await graph.aget_state(inputs[1].config)).tasks == inputs[1].tasks


def again(store: Any, codec: Codec) -> Any:
    """Another saver, as a new process would open it."""
    return store._make(codec=codec) if store.on_disk else store.saver()


@pytest.mark.one_loop
@pytest.mark.parametrize("document", DOCUMENTS.values(), ids=DOCUMENTS)
async def test_a_run_goes_on_and_branches_with_what_was_given(store, document):
    """
    A run that another process goes on with, a replay of its input, an update: each has the value,
    and what is stored after that needs no other copy's row.
    """
    async with store.saver() as saver:
        first = Program(saver)
        first.stop_at = 2
        with pytest.raises(RuntimeError):
            await first.run({"document": document, "count": 0})
    async with store.again() as saver:
        graph = Program(saver).graph
        assert (await graph.ainvoke(None, CONFIG))["document"] == document
        history = [s async for s in graph.aget_state_history(CONFIG)]
        replayed = await graph.ainvoke(None, history[-1].config)
        assert (replayed["document"], replayed["count"]) == (document, STEPS)
        await graph.aupdate_state(CONFIG, {"count": 7})
        assert (await graph.aget_state(CONFIG)).values == {"document": document, "count": 7}


async def test_a_value_outlives_the_checkpoint_that_it_came_with(store):
    """
    Removing all checkpoints but the newest leaves what that one shares with them.
    """
    async with store.saver() as saver:
        graph = Program(saver).graph
        await graph.ainvoke({"document": DOCUMENTS["nested"], "count": 0}, CONFIG)
        await saver.aprune(["t"], strategy="keep_latest")
        assert [s async for s in graph.aget_state_history(CONFIG)][-1].values["count"] == STEPS
        state = await graph.aget_state(CONFIG)
        assert state.values["document"] == DOCUMENTS["nested"]
        await saver.acopy_thread("t", "copy")
        copied = await graph.aget_state({"configurable": {"thread_id": "copy"}})
        assert copied.values == state.values


async def test_values_changed_in_place_are_stored_as_changed(store):
    """
    An object that a node has changed and returned is not taken for the one that was given.
    """

    async def change(state: State) -> State:
        state["document"]["pages"][0]["text"] = "changed"
        return {"document": state["document"]}

    builder = StateGraph(State).add_node("change", change).add_edge(START, "change")
    async with store.saver() as saver:
        graph = builder.compile(checkpointer=saver)
        given = {"pages": [{"text": text(4, 20_000)}]}
        await graph.ainvoke({"document": given}, CONFIG)

        assert (await graph.aget_state(CONFIG)).values["document"] == {
            "pages": [{"text": "changed"}]
        }
