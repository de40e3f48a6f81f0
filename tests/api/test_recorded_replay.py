"""`replay="recorded"`: the steps after a checkpoint are streamed again, and nothing runs."""

import pytest

from actorgraph import Command, interrupt
from actorgraph.errors import EmptyInputError
from tests.support.graphs import at, chain, history, in_a_row, side_by_side, writer

MODES = ["updates", "values", "tasks", "checkpoints"]


async def chunks_of(stream):
    """All chunks of a stream, as `(mode, chunk)`."""
    return [chunk async for chunk in stream]


class TestRecorded:
    @pytest.mark.promise("S165", "C7")
    @pytest.mark.langgraph("F-G7")
    @pytest.mark.every_saver
    async def test_the_stream_is_the_original_and_no_node_runs(self, saver):
        """
        From the first checkpoint on, the same chunks in all modes; the counters stay as they are
        and no row is written.
        """
        log: list[str] = []
        graph = chain("abc", log, checkpointer=saver)
        original = await chunks_of(graph.astream({"bar": ["i"]}, at(), stream_mode=MODES))
        before = await history(graph, at())
        log.clear()

        again = await chunks_of(
            graph.astream(None, before[-1].config, stream_mode=MODES, replay="recorded")
        )

        assert [c for c in again if c[0] != "checkpoints"] == [
            c for c in original if c[0] != "checkpoints"
        ]
        told = [chunk["config"] for mode, chunk in again if mode == "checkpoints"]
        first = [chunk["config"] for mode, chunk in original if mode == "checkpoints"]
        assert told == first[1:]
        assert (log, await history(graph, at())) == ([], before)

    @pytest.mark.promise("S165")
    @pytest.mark.every_saver
    async def test_from_the_middle_it_gives_the_final_values(self, saver):
        """
        `ainvoke` returns what the original run returned.
        """
        log: list[str] = []
        graph = chain("abc", log, checkpointer=saver)
        result = await graph.ainvoke({}, at())
        middle = next(s for s in await history(graph, at()) if s.next == ("b",))
        log.clear()

        again = await graph.ainvoke(None, middle.config, replay="recorded")
        updates = await graph.ainvoke(None, middle.config, stream_mode="updates", replay="recorded")

        assert (again, log) == (result, [])
        assert [list(update) for update in updates] == [["b"], ["c"]]

    @pytest.mark.promise("S165")
    @pytest.mark.every_saver
    async def test_the_original_branch_is_replayed(self, saver):
        """
        Where a checkpoint has several children the first one's run is streamed.
        """
        rounds = iter("123456")

        async def count(state):
            return {"bar": [next(rounds)]}

        graph = in_a_row({"a": writer("a"), "count": count}, checkpointer=saver)
        await graph.ainvoke({}, at())
        old = next(s for s in await history(graph, at()) if s.next == ("count",))
        branch = await graph.ainvoke(None, old.config)

        again = await graph.ainvoke(None, old.config, replay="recorded")

        assert (branch["bar"], again["bar"]) == (["a", "2"], ["a", "1"])

    @pytest.mark.promise("S165")
    @pytest.mark.every_saver
    async def test_a_later_turn_is_not_replayed(self, saver):
        """
        The record ends where a new input begins.
        """
        graph = chain("ab", checkpointer=saver)
        await graph.ainvoke({}, at())
        root = (await history(graph, at()))[-1]
        await graph.ainvoke({}, at())

        assert (await graph.ainvoke(None, root.config, replay="recorded"))["bar"] == ["a", "b"]

    @pytest.mark.promise("S165")
    @pytest.mark.every_saver
    async def test_a_pause_is_replayed_as_a_pause(self, saver):
        """
        A record that ends in an open question ends as the run did, with its siblings' updates.
        """

        async def ask(state):
            return {"bar": [interrupt("?")]}

        graph = side_by_side({"a": writer("a"), "ask": ask}, checkpointer=saver)
        asked = (await graph.ainvoke({}, at()))["__interrupt__"]
        root = (await history(graph, at()))[-1].config

        paused = await graph.ainvoke(None, root, replay="recorded")
        told = await graph.ainvoke(None, root, stream_mode="updates", replay="recorded")
        await graph.ainvoke(Command(resume="yes"), at())
        whole = await graph.ainvoke(None, root, replay="recorded")

        assert paused["__interrupt__"] == asked
        assert [list(chunk) for chunk in told] == [["a"], ["__interrupt__"]]
        assert whole == {"foo": "a", "bar": ["a", "yes"]}

    async def test_it_takes_no_input(self, saver):
        """
        There is nothing to give to a record; an unknown kind of replay is refused too.
        """
        graph = chain("ab", checkpointer=saver)

        with pytest.raises(ValueError, match="takes no input"):
            await graph.ainvoke({}, at(), replay="recorded")
        with pytest.raises(ValueError, match="unknown replay"):
            await graph.ainvoke({}, at(), replay="record")
        with pytest.raises(ValueError, match="needs a checkpointer"):
            await chain("ab").ainvoke(None, replay="recorded")
        with pytest.raises(EmptyInputError):
            await graph.ainvoke(None, at(), replay="recorded")
