"""astream: what each mode yields, and that a stream may be left at any time."""

import pytest

from actorgraph import Command, InMemorySaver, Send, StateGraph, get_stream_writer, interrupt
from tests.support.graphs import AB, ab, at, history, in_a_row, side_by_side, writer


async def chunks(graph, given, config=None, **options) -> list:
    """All chunks of a stream."""
    return [chunk async for chunk in graph.astream(given, config, **options)]


@pytest.mark.promise("D12")
@pytest.mark.every_saver
class TestModes:
    """
    Each mode that can be asked for yields its chunks.
    """

    @pytest.mark.promise("S187")
    async def test_updates_is_the_default(self):
        """
        Each task's return, under its node's name.
        """
        assert await chunks(ab(), {}) == [
            {"a": {"foo": "a", "bar": ["a"]}},
            {"b": {"foo": "b", "bar": ["b"]}},
        ]

    async def test_values(self):
        """
        The state after each superstep, the input's first.
        """
        assert await chunks(ab(), {"foo": "x"}, stream_mode="values") == [
            {"foo": "x", "bar": []},
            {"foo": "a", "bar": ["a"]},
            {"foo": "b", "bar": ["a", "b"]},
        ]

    async def test_custom_comes_from_async_and_sync_nodes(self):
        """
        The values that nodes give to the stream writer, in order.
        """

        async def one(state):
            get_stream_writer()({"at": 1})

        def two(state):
            write = get_stream_writer()
            write({"at": 2})
            write("three")

        graph = in_a_row({"one": one, "two": two})

        assert await chunks(graph, {}, stream_mode="custom") == [{"at": 1}, {"at": 2}, "three"]

    async def test_a_writer_without_readers_does_nothing(self):
        """
        A node may write custom chunks whether or not they have a reader.
        """

        def node(state):
            get_stream_writer()("lost")
            return {"foo": "x"}

        assert await chunks(in_a_row({"node": node}), {}) == [{"node": {"foo": "x"}}]

    @pytest.mark.promise("S139")
    async def test_tasks_mode_reports_start_and_result(self):
        """
        A task's start names its input and triggers, its end the result.
        """
        start, result = await chunks(
            in_a_row({"a": writer("a")}), {"foo": "x"}, stream_mode="tasks"
        )

        assert (start["name"], start["input"], start["triggers"]) == (
            "a",
            {"foo": "x", "bar": []},
            ("branch:to:a",),
        )
        assert result["id"] == start["id"]
        assert result["result"] == {"foo": "a", "bar": ["a"]}
        assert (result["error"], result["interrupts"]) == (None, [])

    @pytest.mark.promise("S186")
    async def test_checkpoints_are_the_stored_ones(self, saver):
        """
        One chunk per stored checkpoint, with its id, before the run ends.
        """
        graph = ab(saver)

        told = await chunks(graph, {}, at(), stream_mode="checkpoints")
        stored = list(reversed(await history(graph, at())))

        assert [c["config"]["configurable"]["checkpoint_id"] for c in told] == [
            s.config["configurable"]["checkpoint_id"] for s in stored
        ]
        assert [(c["values"], tuple(c["next"])) for c in told] == [
            (s.values, s.next) for s in stored
        ]
        assert [c["metadata"]["step"] for c in told] == [-1, 0, 1, 2]

    async def test_debug_wraps_checkpoints_and_tasks(self, saver):
        """
        `debug` is the checkpoints and tasks chunks with a step, a time and a type.
        """
        told = await chunks(ab(saver), {}, at(), stream_mode="debug")

        kinds = ["checkpoint", "checkpoint", *["task", "task_result", "checkpoint"] * 2]
        assert [chunk["type"] for chunk in told] == kinds
        assert [chunk["step"] for chunk in told] == [-1, 0, 1, 1, 1, 2, 2, 2]
        assert all(chunk.keys() == {"type", "step", "timestamp", "payload"} for chunk in told)

    async def test_a_list_of_modes_yields_pairs(self):
        """
        With a list each chunk is `(mode, chunk)`, and the modes interleave as things happen.
        """
        told = await chunks(ab(), {"foo": "x"}, stream_mode=["values", "updates"])
        single = await chunks(ab(), {"foo": "x"}, stream_mode=["values"])

        assert [mode for mode, _ in told] == ["values", *["updates", "values"] * 2]
        assert [mode for mode, _ in single] == ["values"] * 3

    async def test_an_unknown_mode_is_refused_at_the_call(self):
        """
        A misspelt mode fails where it is written, with the nearest one.
        """
        with pytest.raises(ValueError, match=r"(?s)'valeus'.*'values'"):
            ab().astream({}, stream_mode="valeus")

    async def test_ainvoke_returns_the_chunks_of_another_mode(self):
        """
        `ainvoke(stream_mode="updates")` gives the list of the chunks.
        """
        graph = ab()

        assert await graph.ainvoke({}, stream_mode="updates") == await chunks(graph, {})

    @pytest.mark.langgraph("F-D18")
    async def test_output_keys_narrow_updates_and_values(self):
        """
        Only the asked keys are in the chunks; one key asked for by its name comes bare.
        """
        modes = ["updates", "values"]
        told = await chunks(ab(), {}, stream_mode=modes, output_keys=["foo"])
        bare = await chunks(ab(), {}, stream_mode=modes, output_keys="foo")

        assert told[-2:] == [("updates", {"b": {"foo": "b"}}), ("values", {"foo": "b"})]
        assert bare[-2:] == [("updates", {"b": "b"}), ("values", "b")]


class TestInterruptsAndErrors:
    @pytest.mark.promise("S170", "S187")
    @pytest.mark.every_saver
    async def test_an_interrupt_is_a_chunk_and_the_end(self, saver):
        """
        A question ends the stream with an `__interrupt__` chunk; a resume streams on.
        """

        async def ask(state):
            return {"bar": [interrupt("sure?")]}

        graph = in_a_row({"a": writer("a"), "ask": ask}, checkpointer=saver)

        first = await chunks(graph, {}, at())
        second = await chunks(graph, Command(resume="yes"), at())

        (question,) = first[1]["__interrupt__"]
        assert list(first[0]) == ["a"]
        assert question.value == "sure?"
        assert second == [{"ask": {"bar": ["yes"]}}]

    @pytest.mark.promise("S168", "S170")
    @pytest.mark.every_saver
    async def test_a_stop_before_a_node_is_an_empty_question(self, saver):
        """
        `interrupt_before` ends the stream with an `__interrupt__` chunk without questions.
        """
        graph = ab(saver, interrupt_before=["b"])

        first = await chunks(graph, {}, at())
        second = await chunks(graph, None, at())

        assert first == [{"a": {"foo": "a", "bar": ["a"]}}, {"__interrupt__": ()}]
        assert second == [{"b": {"foo": "b", "bar": ["b"]}}]

    async def test_a_nodes_error_comes_after_what_was_done(self):
        """
        Chunks of finished work are read first, then the stream raises what the node raised.
        """

        async def bad(state):
            raise ValueError("boom")

        stream = in_a_row({"a": writer("a"), "bad": bad}).astream({})
        first = await anext(stream)

        with pytest.raises(ValueError, match="boom"):
            await anext(stream)

        assert first == {"a": {"foo": "a", "bar": ["a"]}}

    async def test_a_node_that_raises_the_end_of_an_iterator_fails(self):
        """
        StopAsyncIteration of a node is the error of the stream, not its end.
        """

        async def bad(state):
            raise StopAsyncIteration

        with pytest.raises(RuntimeError, match="a node raised StopAsyncIteration"):
            await chunks(in_a_row({"bad": bad}), {})

    async def test_a_refused_input_raises_at_the_first_chunk(self, saver):
        """
        Going on where nothing is stored is the stream's error.
        """
        with pytest.raises(Exception, match="no checkpoint"):
            await chunks(ab(saver), None, at())

    async def test_a_read_out_stream_stays_at_its_end(self):
        """
        Asking a finished stream for more ends at once.
        """
        stream = ab().astream({})
        first = [chunk async for chunk in stream]

        assert len(first) == 2
        assert [chunk async for chunk in stream] == []


class TestOrder:
    async def test_fanned_out_tasks_are_reported_as_they_finish(self):
        """
        Each Send's task has an updates chunk of its own, all before the next step's.
        """
        builder = StateGraph(AB)
        builder.add_node("each", lambda n: {"bar": [str(n)]})
        builder.add_node("last", writer("last"))
        builder.add_conditional_edges("__start__", lambda s: [Send("each", n) for n in range(20)])
        builder.add_edge("each", "last")

        told = await chunks(builder.compile(), {})

        assert [next(iter(chunk)) for chunk in told] == ["each"] * 20 + ["last"]
        assert sorted(c["each"]["bar"][0] for c in told[:-1]) == sorted(map(str, range(20)))

    async def test_siblings_share_a_values_chunk(self):
        """
        A superstep that writes gives one `values` chunk; an input of nothing gives none.
        """
        graph = side_by_side({n: lambda s, n=n: {"bar": [n]} for n in "abc"})

        told = await chunks(graph, {}, stream_mode="values")

        assert told == [{"bar": ["a", "b", "c"]}]

    async def test_a_second_stream_of_one_graph_is_its_own(self):
        """
        Two streams of one graph at once don't mix.
        """
        graph = ab(InMemorySaver())
        one, two = graph.astream({}, at("one")), graph.astream({}, at("two"))

        told = [[await anext(one), await anext(two)] for _ in range(2)]
        await one.aclose()
        await two.aclose()

        assert [[next(iter(c)) for c in pair] for pair in told] == [["a", "a"], ["b", "b"]]
