"""Threads that a system finds by status, metadata, values and times; the saver's index of them."""

from typing import Any, TypedDict

import pytest

from actorgraph import END, START, ActorSystem, StateGraph, interrupt
from actorgraph.checkpoints import SqliteSaver
from actorgraph.codec import Codec
from actorgraph.errors import InvalidConfigError
from actorgraph.runtime.saver.hosting import host_of
from actorgraph.values.thread_rows import ListMarks, PutThread
from tests.support.graphs import at


class Order(TypedDict, total=False):
    """A state with values of JSON's types."""

    name: str
    count: int
    parts: dict[str, Any]


async def add(state: Order) -> Order:
    """Count; ask for an answer or fail where the name says so."""
    if state["name"] == "asks":
        interrupt("how many?")
    if state["name"] == "fails":
        raise ZeroDivisionError
    return {"count": state.get("count", 0) + 1}


def graph_of(saver: Any) -> Any:
    """A graph of one node."""
    builder = StateGraph(Order)
    builder.add_node("add", add)
    builder.add_edge(START, "add")
    builder.add_edge("add", END)
    return builder.compile(checkpointer=saver)


async def ids(system: ActorSystem, **wanted: Any) -> list[str]:
    """The ids of the threads that a search finds, sorted by id."""
    found = await system.threads(**wanted, sort_by="thread_id", descending=False)
    assert len(found) == await system.count_threads(**wanted)
    return [thread.thread_id for thread in found]


@pytest.mark.every_saver
class TestSearches:
    async def test_threads_are_found_by_what_they_are(self, saver):
        """
        Threads of a system and of the program's own calls are found by id, status, graph and
        values; a value of another type is another value.
        """
        graph = graph_of(saver)
        async with ActorSystem({"order": graph}, saver=saver) as system:
            await graph.ainvoke({"name": "plain", "parts": {"a": [1, None]}}, at("x-plain"))
            await graph.ainvoke({"name": "asks"}, at("asks"))
            with pytest.raises(ZeroDivisionError):
                await graph.ainvoke({"name": "fails"}, at("fails"))
            run = await system.start("order", "x-run", {"name": "run", "count": 7})
            await run.result()

            assert await ids(system) == ["asks", "fails", "x-plain", "x-run"]
            assert await ids(system, prefix="x-") == ["x-plain", "x-run"]
            assert await ids(system, status="interrupted") == ["asks"]
            assert await ids(system, status="error") == ["fails"]
            assert await ids(system, status="idle", values={"count": 8.0}) == ["x-run"]
            assert await ids(system, values={"count": True}) == []
            assert await ids(system, values={"parts": {"a": [1, None]}}) == ["x-plain"]
            assert await ids(system, values={"parts": {"a": [1]}}) == []
            assert await ids(system, graph="order", metadata={"graph_id": "order"}, prefix="a") == [
                "asks"
            ]
            assert await ids(system, graph="other") == []

    async def test_each_change_is_found_by_the_next_search(self, saver):
        """
        A search sees what another call has stored, updated or deleted just before.
        """
        graph = graph_of(saver)
        async with ActorSystem({"order": graph}, saver=saver) as system:
            await graph.ainvoke({"name": "a"}, at("t"))
            assert await ids(system, values={"count": 1}) == ["t"]
            await graph.ainvoke({"name": "a", "count": 5}, at("t"))
            assert await ids(system, values={"count": 1}) == []
            await graph.aupdate_state(at("t"), {"count": 9})
            assert await ids(system, values={"count": 9}) == ["t"]
            await saver.acopy_thread("t", "copied")
            assert await ids(system, values={"count": 9}) == ["copied", "t"]
            await saver.adelete_thread("t")
            assert await ids(system) == ["copied"]

    async def test_pages_are_sorted(self, saver):
        """
        `limit` and `offset` cut a page out of the threads in their order.
        """
        graph = graph_of(saver)
        async with ActorSystem({"order": graph}, saver=saver) as system:
            for name in "cab":
                await graph.ainvoke({"name": name}, at(name))
            newest = await system.threads(limit=2)
            oldest = await system.threads(sort_by="created_at", descending=False, offset=1)

            assert [thread.thread_id for thread in newest] == ["b", "a"]
            assert [thread.thread_id for thread in oldest] == ["a", "b"]
            assert newest[0].steps == 1
            assert newest[0].state_updated_at == newest[0].updated_at

    @pytest.mark.parametrize(
        "wanted", [{"status": "gone"}, {"limit": 0}, {"offset": -1}, {"values": {"a": object()}}]
    )
    async def test_a_search_that_makes_no_sense_is_refused(self, saver, wanted):
        """
        An unknown status, a page out of range and a value that JSON doesn't have are errors.
        """
        async with ActorSystem({"order": graph_of(saver)}, saver=saver) as system:
            with pytest.raises(InvalidConfigError):
                await system.threads(**wanted)


class TestTheIndex:
    async def test_a_program_without_searches_has_no_marks(self, tmp_path):
        """
        The database marks changed threads from the first search on, and not before.
        """
        async with SqliteSaver(tmp_path / "runs.db") as saver:
            graph, reader = graph_of(saver), host_of(saver).reader
            async with ActorSystem({"order": graph}, saver=saver) as system:
                await graph.ainvoke({"name": "a"}, at("t"))
                before = await reader.ask(ListMarks())
                await system.threads()
                after = await reader.ask(ListMarks())
                await graph.ainvoke({"name": "a"}, at("t"))
                marked = await reader.ask(ListMarks())

        assert (before, after) == (None, [])
        assert [mark.thread_id for mark in marked] == ["t"]

    async def test_another_process_is_seen(self, tmp_path):
        """
        A thread that a second saver over the file stores is found by the first one's next search.
        """
        path = tmp_path / "runs.db"
        saver = SqliteSaver(path)
        system = ActorSystem({"order": graph_of(saver)}, saver=saver)
        async with system, SqliteSaver(path) as other:
            await system.threads()
            await graph_of(other).ainvoke({"name": "other"}, at("t"))

            assert await ids(system, values={"name": "other"}) == ["t"]

    async def test_an_encrypted_saver_keeps_no_values(self, tmp_path):
        """
        Values are found although no text of them is in the file.
        """
        path = tmp_path / "runs.db"
        async with SqliteSaver(path, codec=Codec(keys={"k": b"k" * 32})) as saver:
            graph = graph_of(saver)
            async with ActorSystem({"order": graph}, saver=saver) as system:
                await graph.ainvoke({"name": "secret-name"}, at("t"))
                await graph.ainvoke({"name": "other"}, at("u"))

                assert await ids(system, values={"name": "secret-name"}) == ["t"]
        assert b"secret-name" not in path.read_bytes()

    async def test_of_two_registrations_one_makes_the_thread(self, tmp_path):
        """
        The second one of the same id changes nothing.
        """
        saver = SqliteSaver(tmp_path / "runs.db")
        async with ActorSystem({"order": graph_of(saver)}, saver=saver) as system:
            made = await host_of(saver).writer.store(
                PutThread("t", 1, '{"a": 1}'), PutThread("t", 2, '{"a": 2}')
            )
            found = await system.threads(metadata={"a": 1})

        assert [one.sequence for one in made] == [1, 0]
        assert [thread.metadata for thread in found] == [{"a": 1}]
