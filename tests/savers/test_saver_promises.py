"""Promises of the guides: clones, imports, concurrency, layers, channels, compression."""

import copy
import operator
import re
import subprocess
import sys
import threading
from typing import Annotated, TypedDict

import anyio
import pytest
from anyio.from_thread import start_blocking_portal

from actorgraph import END, START, InMemorySaver, Send, SqliteSaver, StateGraph
from actorgraph.channels import Topic
from actorgraph.codec import Codec
from actorgraph.codec.records import Record
from actorgraph.errors import SaverBrokenError
from actorgraph.testing import FaultPlan, FaultySaver
from actorgraph.values.commits import ListCheckpoints
from tests.savers.test_langgraph_methods import checkpoint, metadata, put
from tests.savers.test_sqlite_file import connected
from tests.support.graphs import AB, ab, at, compiled, in_a_row
from tests.support.source_files import ROOT

pytestmark = [pytest.mark.every_saver, pytest.mark.every_loop]


class TestMemory:
    @pytest.mark.promise("S082")
    async def test_a_clone_shares_what_is_stored(self):
        """
        A copy of a memory saver sees what the other stores.
        """
        one = InMemorySaver()
        two = copy.copy(one)

        async with one, two:
            await put(two, at(), 0)

            assert (await one.aget(at()))["channel_values"]["foo"] == "v0"

    @pytest.mark.promise("S083")
    def test_the_guides_example(self):
        """
        A graph compiled with InMemorySaver() goes on with its thread, with nothing opened.
        """
        builder = StateGraph(AB)
        builder.add_node("a", lambda _: {"foo": "a", "bar": ["a"]})
        builder.add_node("b", lambda _: {"foo": "b", "bar": ["b"]})
        builder.add_edge(START, "a").add_edge("a", "b").add_edge("b", END)
        graph = builder.compile(checkpointer=InMemorySaver())
        config = {"configurable": {"thread_id": "1"}}

        assert graph.invoke({"foo": "", "bar": []}, config=config)["bar"] == ["a", "b"]
        assert graph.invoke({"foo": "x"}, config=config)["bar"] == ["a", "b", "a", "b"]
        assert graph.get_state(config).values == {"foo": "b", "bar": ["a", "b", "a", "b"]}


class TestSqlite:
    @pytest.mark.promise("S102", "S103")
    def test_it_imports_no_database_package(self):
        """
        SqliteSaver comes with the package itself and imports no database library but the standard
        one, and aiosqlite at most.
        """
        program = (
            "import sys\n"
            "from actorgraph import SqliteSaver\n"
            "with SqliteSaver(':memory:') as saver: saver.list_threads()\n"
            "known = 'psycopg psycopg2 asyncpg sqlalchemy apsw peewee redis pymongo duckdb'\n"
            "print([name for name in known.split() if name in sys.modules])"
        )
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        )

        assert done.stdout.strip() == "[]"

    @pytest.mark.promise("S105")
    def test_many_writers_at_once(self, tmp_path):
        """
        Fifty puts at once from tasks and from threads are all stored, and none sees a lock.
        """
        with SqliteSaver(tmp_path / "runs.db") as saver:
            errors: list[BaseException] = []

            def store(thread: str) -> None:
                try:
                    point = checkpoint(0)
                    saver.put(at(thread), point, metadata(0), point["channel_versions"])
                except BaseException as error:  # noqa: BLE001 - told below
                    errors.append(error)

            threads = [threading.Thread(target=store, args=(f"t{n}",)) for n in range(25)]
            for thread in threads:
                thread.start()
            with start_blocking_portal() as portal:
                portal.call(_put_many, saver, [f"a{n}" for n in range(25)])
            for thread in threads:
                thread.join()
            found = saver.list_threads()

        assert errors == []
        assert len(found) == 50


async def _put_many(saver, threads: list[str]) -> None:
    async with anyio.create_task_group() as group:
        for thread in threads:
            group.start_soon(put, saver, at(thread), 0)


@pytest.mark.promise("S109")
async def test_values_are_compressed_and_tagged(store, tmp_path):
    """
    A repetitive megabyte takes less than a tenth of that, begins with the tag of what it is,
    and comes back equal.
    """
    text = "the same again, " * 65_536
    saver = store.saver()
    form = "json" if store.kind == "jsonl" else "msgpack"
    saver.codec = Codec(compress_above=1_000, form=form)
    async with saver:
        point = checkpoint(0, {"foo": text})
        config = await saver.aput(at(), point, metadata(0), point["channel_versions"])
        (stored,) = (await saver.query([ListCheckpoints("t")]))[0]
        size = await saver.acheckpoint_bytes(config)
        assert (await saver.aget(config))["channel_values"]["foo"] == text

    assert size < 100_000
    assert stored.blobs["foo"][:2] == b"\xc1\x01"
    written = [p for p in tmp_path.rglob("*") if p.is_file()]
    assert sum(p.stat().st_size for p in written) < 200_000
    assert bool(written) is (store.kind in {"sqlite", "jsonl"})


class TestChannels:
    @pytest.mark.promise("S050")
    async def test_unwritten_channels_are_left_out(self, store):
        """
        A channel that was not written has no value in the checkpoint, and is read as its default
        after a restart.
        """

        class State(TypedDict, total=False):
            foo: str
            never: str
            none: Annotated[list, operator.add]

        seen: list[dict] = []

        def node(state):
            seen.append(state)
            return {"foo": "a"}

        for makes in (store.saver, store.again):
            async with makes() as saver:
                graph = compiled({"a": node}, [(START, "a")], schema=State, checkpointer=saver)
                await graph.ainvoke({"foo": "x"}, at())
                found = (await saver.aget_tuple(at())).checkpoint["channel_values"]
                assert found == {"foo": "a"}
                assert (await graph.aget_state(at())).values == {"foo": "a", "none": []}

        assert seen == [{"foo": "x", "none": []}] * 2

    @pytest.mark.promise("S052")
    async def test_a_unique_topic_remembers(self, store):
        """
        A topic stores what it has published: a new process drops the same value.
        """

        class State(TypedDict, total=False):
            log: Annotated[list, Topic(str, accumulate=True, unique=True)]

        for makes, says in ((store.saver, "ab"), (store.again, "bc")):
            async with makes() as saver:
                graph = in_a_row(
                    {"a": lambda _, says=says: {"log": [*says]}}, schema=State, checkpointer=saver
                )
                result = await graph.ainvoke({}, at())

        assert result["log"] == ["a", "b", "c"]

    @pytest.mark.promise("S035", "S063")
    async def test_sends_survive_a_crash(self, store):
        """
        When a process dies after the node that fans out, a new one delivers each packet once.
        """

        class Work(TypedDict, total=False):
            doc: int
            done: Annotated[list, operator.add]

        def fan(saver, delivered):
            def work(packet):
                delivered.append(packet["doc"])
                return {"done": [packet["doc"]]}

            builder = StateGraph(Work).add_node("fan", lambda _: {}).add_node("work", work)
            builder.add_edge(START, "fan").add_conditional_edges(
                "fan", lambda _: [Send("work", {"doc": doc}) for doc in (1, 2, 3)]
            )
            return builder.compile(checkpointer=saver)

        plan = FaultPlan(fail_at=5)
        async with FaultySaver(store.saver(), plan, immediate=False) as dies:
            with pytest.raises(SaverBrokenError):
                await fan(dies, []).ainvoke({}, at())
        delivered: list[int] = []
        async with store.again() as saver:
            graph = fan(saver, delivered)
            stored = await graph.aget_state(at())
            result = await graph.ainvoke(None, at())

        assert plan.operations[:5] == ["open", "query", *["commit"] * 3]
        assert (stored.next, stored.values) == (("work",) * 3, {"done": []})
        assert (sorted(delivered), result["done"]) == ([1, 2, 3], [1, 2, 3])


@pytest.mark.promise("S071")
def test_the_page_names_the_five_layers(tmp_path):
    """
    docs/inspecting.md has every column and every key of a record in exactly one of the five
    layers.
    """
    page = (ROOT / "docs/inspecting.md").read_text().partition("## The five layers")[2]
    layers = {
        cells[1].strip(): re.findall(r"`(\w+)`", cells[3])
        for cells in (line.split("|") for line in page.splitlines() if line.startswith("| "))
        if cells[1].strip() != "layer"
    }
    with SqliteSaver(tmp_path / "runs.db") as saver:
        ab(saver).invoke({}, at())
    with connected(tmp_path / "runs.db") as db:
        columns = {row[1] for row in db.execute("PRAGMA table_info(checkpoints)")} - {"record"}

    named = [name for names in layers.values() for name in names]
    assert [*layers] == ["Identity", "State", "Versioning", "Coordination", "Metadata"]
    assert sorted(named) == sorted({*columns, *Record.__struct_fields__})
