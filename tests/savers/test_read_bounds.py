"""How much is read: statements a page, rows a load, bytes a chat, and who waits for readers."""

import json
from contextlib import aclosing
from operator import add
from typing import Annotated, TypedDict

import anyio
import pytest

from actorgraph import END, START, JsonlSaver, SqliteSaver, StateGraph
from actorgraph.runtime.saver.hosting import host_of
from actorgraph.savers.jsonl.index import ThreadIndex
from actorgraph.savers.sqlite import schema
from actorgraph.values.commits import LoadCheckpoint
from tests.savers.test_growing_lists import growing
from tests.savers.test_langgraph_methods import put
from tests.savers.test_sqlite_file import connected
from tests.support.gates import PATIENCE_S
from tests.support.graphs import ab, at, history

pytestmark = [pytest.mark.every_saver, pytest.mark.every_loop]

PAGE = 100


class Traced(SqliteSaver):
    """A saver that notes each statement of its reading connection, and counts the rows."""

    def __init__(self, path, **options):
        super().__init__(path, **options)
        self.statements: list[str] = []
        self.rows = 0

    async def trace(self) -> None:
        """From now on."""

        def note(statement: str) -> None:
            if statement not in {"BEGIN", "COMMIT"}:
                self.statements.append(statement)

        def count(_, row):
            self.rows += 1
            return row

        def watch(connection) -> None:
            connection.set_trace_callback(note)
            connection.row_factory = count

        await self._reader.run(watch)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs.db"


class TestHistory:
    @pytest.fixture
    async def saver(self, path):
        """A saver over a thread with 1,200 checkpoints and a growing list."""
        async with Traced(path, synchronous="OFF") as saver:
            config = {**at(), "recursion_limit": 2_000}
            await growing(1_198, 1, saver).ainvoke({}, config, durability="async")
            await saver.trace()
            yield saver

    @pytest.mark.one_loop
    @pytest.mark.promise("S216", "S097")
    async def test_a_page_takes_two_statements(self, saver):
        """
        1,200 checkpoints are read with two statements a page of 100, whatever they hold.
        """
        found = await history(growing(1_198, 1, saver), at())

        assert len(found) == 1_200
        assert [len(s.values["items"]) for s in found[:3]] == [1_198, 1_197, 1_196]
        assert len(saver.statements) <= 2 * -(-len(found) // PAGE)

    @pytest.mark.one_loop
    async def test_a_list_takes_two_statements_a_page(self, saver):
        """
        Everything that alist shows is read with two statements a page, of 100 checkpoints or less
        where they are large.
        """
        found = [point async for point in saver.alist(at())]

        assert len(found) == 1_200
        assert 2 * 12 <= len(saver.statements) <= 5 * 12

    @pytest.mark.one_loop
    @pytest.mark.promise("S097", "S199")
    async def test_values_are_found_along_indexes(self, saver, path):
        """
        No table is read as a whole for the values of a page.
        """
        values = {"ledgers": "[]", "blobs": "[]", "lists": "[]"}
        with connected(path) as db:
            statement = "EXPLAIN QUERY PLAN " + schema.SELECT_VALUES
            plan = [row[3] for row in db.execute(statement, values)]

        assert [line for line in plan if line.startswith("SCAN")] == [
            "SCAN j VIRTUAL TABLE INDEX 1:"
        ] * 3


async def test_a_paused_reader_holds_up_no_writer(saver):
    """
    While a reader pauses in the middle of a history others run and store.
    """
    graph = ab(saver)
    for _ in range(3):
        await graph.ainvoke({"foo": "x"}, at())

    async with aclosing(graph.aget_state_history(at())) as pages:
        first = await anext(pages)
        with anyio.fail_after(PATIENCE_S):
            for n in range(5):
                await graph.ainvoke({"foo": "y"}, at(f"other{n}"))
            await graph.ainvoke({"foo": "z"}, at())
        rest = [point.metadata["step"] async for point in pages]

    assert [first.metadata["step"], *rest] == [*range(10, -2, -1)]


@pytest.mark.promise("S020", "S216")
async def test_listing_reads_no_values_of_others(path):
    """
    A page of five from a thread of large values reads those five, not the rest.
    """

    async def node(state):
        return {"text": "x" * 1_000_000}

    class Big(TypedDict, total=False):
        text: str

    builder = StateGraph(Big)
    builder.add_sequence([(f"n{i}", node) for i in range(20)])
    builder.add_edge(START, "n0")
    async with Traced(path, synchronous="OFF") as saver:
        graph = builder.compile(checkpointer=saver)
        await graph.ainvoke({"text": ""}, at(), durability="async")
        await saver.trace()
        found = await history(graph, at(), limit=5)
        read = saver.rows

    assert len(found) == 5
    assert read <= 6 * 3


@pytest.mark.promise("S216")
async def test_a_page_of_a_file_reads_its_own_lines(tmp_path, monkeypatch):
    """
    A page of five from a file of a hundred lines reads five of them, and the newest one line.
    """
    read: list[int] = []
    line_of = ThreadIndex.read

    def noted(self, descriptor, number):
        read.append(number)
        return line_of(self, descriptor, number)

    async with JsonlSaver(tmp_path / "threads") as saver:
        for step in range(100):
            await put(saver, at(), step)
        monkeypatch.setattr(ThreadIndex, "read", noted)
        found = [p.metadata["step"] async for p in saver.alist(at(), limit=5)]
        page = set(read)
        read.clear()
        await saver.aget_tuple(at())

    assert found == [99, 98, 97, 96, 95]
    assert (len(page), len(set(read))) == (5, 1)


class Chat(TypedDict, total=False):
    """Messages as dicts."""

    messages: Annotated[list[dict], add]


@pytest.mark.one_loop
@pytest.mark.promise("C1")
async def test_a_chat_takes_at_most_six_times_its_state(path):
    """
    400 turns of two messages take at most six times the bytes of the last state.
    """
    said = iter(range(10_000))

    def message(role: str) -> dict:
        return {"role": role, "content": f"{next(said):05}" * 80}

    async def answer(state):
        return {"messages": [message("assistant")]}

    builder = StateGraph(Chat).add_node("answer", answer)
    builder.add_edge(START, "answer").add_edge("answer", END)
    async with SqliteSaver(path, synchronous="OFF") as saver:
        graph = builder.compile(checkpointer=saver)
        for _ in range(400):
            last = await graph.ainvoke({"messages": [message("user")]}, at(), durability="async")

    assert len(last["messages"]) == 800
    assert path.stat().st_size <= 6 * len(json.dumps(last))


class TestLoading:
    @pytest.mark.one_loop
    @pytest.mark.promise("S066", "C1")
    @pytest.mark.parametrize("steps", [1_000])
    async def test_the_newest_of_many_takes_twenty_rows(self, path, steps):
        """
        However long a thread is, its newest checkpoint is read from at most 20 rows; tests/faults
        has 5,000 checkpoints with 10,000 messages.
        """
        assert await rows_of_a_load(path, steps) <= 20

    @pytest.mark.promise("S066", "C1")
    async def test_a_load_is_answered_with_few_rows(self, saver):
        """
        On every saver the newest of 150 checkpoints of a list of 300 comes as at most 20 rows.
        """
        config = {**at(), "recursion_limit": 200}
        await growing(150, 2, saver).ainvoke({}, config, durability="async")
        loaded = await host_of(saver).reader.ask(LoadCheckpoint("t", "", None))
        point = loaded.checkpoint

        rows = sum(len(parts) for parts in point.ranges.values())
        assert sum(r.count for parts in point.ranges.values() for r in parts) == 300
        assert 1 + rows + len(point.blobs) + len(point.ledger) <= 20


async def rows_of_a_load(path, steps: int) -> int:
    """How many rows a load of the newest of so many checkpoints, two messages each, reads."""
    async with SqliteSaver(path, synchronous="OFF") as saver:
        config = {**at(), "recursion_limit": steps + 10}
        await growing(steps, 2, saver).ainvoke({}, config, durability="async")
    async with Traced(path) as saver:
        await saver.trace()
        found = await saver.aget_tuple(at())

        assert len(found.checkpoint["channel_values"]["items"]) == 2 * steps
        return saver.rows
