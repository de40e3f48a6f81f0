"""Contents of a saver of LangGraph's: its checkpoints, for its own tools."""

import operator
import sqlite3
import typing
from contextlib import closing
from itertools import pairwise
from typing import Annotated, TypedDict

import pytest
from langgraph import graph as lg
from langgraph import types as lg_types
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver

from actorgraph import (
    START,
    Command,
    ForeignSaverWarning,
    GraphBuildError,
    NotSupportedError,
    Send,
    StateGraph,
    StorageError,
    interrupt,
)
from actorgraph.api.savers.adapt import adapt_checkpointer
from tests.savers.foreign.plain import AsyncDictSaver, DictSaver, quietly, shut
from tests.support.graphs import ab, at, history, in_a_row


class Log(TypedDict, total=False):
    log: Annotated[list, operator.add]
    n: int


def program(state_graph, send, ask, saver):
    """The same program by either library: three items at once, the last of which asks."""

    def plan(state: Log):
        return {"log": ["plan"], "n": 3}

    def route(state: Log):
        return [send("item", {"n": n}) for n in range(state["n"])]

    def item(state: Log):
        return {"log": [ask({"item": 2}) if state["n"] == 2 else state["n"]]}

    def end(state: Log):
        return {"log": ["end"]}

    builder = state_graph(Log)
    for node in (plan, item, end):
        builder.add_node(node.__name__, node)
    builder.add_edge(START, "plan")
    builder.add_conditional_edges("plan", route, ["item"])
    builder.add_edge("item", "end")
    return builder.compile(checkpointer=saver)


def ours(saver):
    with quietly():
        return program(StateGraph, Send, interrupt, saver)


def theirs(saver):
    return program(lg.StateGraph, lg_types.Send, lg_types.interrupt, saver)


@pytest.fixture(params=["memory", "sqlite", "dict"])
def plain(request, tmp_path):
    """A saver that LangGraph can use with blocking calls."""
    if request.param == "dict":
        yield DictSaver()
    elif request.param == "memory":
        yield InMemorySaver()
    else:
        connection = sqlite3.connect(tmp_path / "lg.db", check_same_thread=False)
        with closing(connection):
            yield SqliteSaver(connection)


class TestLangGraphReads:
    def test_values_and_history(self, plain):
        """
        LangGraph's get_state and history of a thread that ran here show the same values.
        """
        graph, reader = ours(plain), theirs(plain)
        graph.invoke({"log": []}, at())
        graph.invoke(Command(resume="yes"), at())

        shown = [s.values for s in graph.get_state_history(at())]
        read = [s.values for s in reader.get_state_history(at())]

        assert graph.get_state(at()).values["log"] == ["plan", 0, 1, "yes", "end"]
        assert read[:3] == shown[:3]
        assert [s.metadata["step"] for s in reader.get_state_history(at())] == [3, 2, 1, 0, -1][
            : len(read)
        ]
        graph.checkpointer.close_blocking()

    @pytest.mark.langgraph("F-E5", "F-E7")
    def test_the_tuple(self, plain):
        """
        A stored checkpoint has LangGraph's keys, plain values and its versions in one type.
        """
        graph = ours(plain)
        graph.invoke({"log": []}, at())

        found = plain.get_tuple(at())

        assert set(found.checkpoint) == {
            *("v", "id", "ts", "channel_values", "channel_versions", "versions_seen"),
            "updated_channels",
        }
        assert found.checkpoint["channel_values"]["log"] == ["plan"]
        sends = found.checkpoint["channel_values"]["__pregel_tasks"]
        assert [type(s) for s in sends] == [lg_types.Send] * 3
        first = type(plain.get_next_version(None, None))
        assert {type(v) for v in found.checkpoint["channel_versions"].values()} == {first}
        asked = [value for _, channel, value in found.pending_writes if channel == "__interrupt__"]
        assert [i.value for i in asked[0]] == [{"item": 2}]
        assert isinstance(asked[0][0], lg_types.Interrupt)
        assert found.metadata["source"] == "loop"
        graph.checkpointer.close_blocking()

    @pytest.mark.promise("S013")
    async def test_new_versions_are_what_changed(self):
        """
        A put names as new the channels whose version isn't the parent's, and no others.
        """
        told: list[tuple[dict, dict]] = []

        class Telling(DictSaver):
            def put(self, config, checkpoint, metadata, new_versions):
                told.append((checkpoint["channel_versions"], new_versions))
                return super().put(config, checkpoint, metadata, new_versions)

        with quietly():
            graph = ab(Telling())
        await graph.ainvoke({"foo": "in"}, at())
        await shut(graph)

        assert len(told) == 4
        assert told[0][1] == told[0][0]
        for (before, _), (after, new) in pairwise(told):
            assert new == {c: v for c, v in after.items() if before.get(c) != v}
        assert set(told[-1][1]) == {"foo", "bar", "branch:to:b"}

    def test_langgraph_goes_on_with_a_finished_thread(self, plain):
        """
        A thread that ended here takes its next input in LangGraph.
        """
        graph = ab(None)
        with quietly():
            graph = ab(plain)
        graph.invoke({"bar": ["x"]}, at())
        builder = lg.StateGraph(typing.cast("type", graph.builder.state_schema))
        builder.add_node("a", lambda _: {"bar": ["theirs"]})
        builder.add_edge(START, "a")

        result = builder.compile(checkpointer=plain).invoke({"bar": ["y"]}, at())

        assert result["bar"] == ["x", "a", "b", "y", "theirs"]
        graph.checkpointer.close_blocking()


class TestOursReads:
    def test_a_finished_thread_of_langgraph_goes_on_here(self, plain):
        """
        LangGraph's own checkpoints, with versions of text, are gone on from.
        """
        them = theirs(plain)
        them.invoke({"log": []}, at())
        them.invoke(lg_types.Command(resume="yes"), at())
        graph = ours(plain)

        before = graph.get_state(at())
        graph.invoke({"log": ["again"]}, at())
        result = graph.invoke(Command(resume="no"), at())

        assert before.values["log"] == ["plan", 0, 1, "yes", "end"]
        assert result["log"][5:] == ["again", "plan", 0, 1, "no", "end"]
        graph.checkpointer.close_blocking()

    async def test_a_new_process_goes_on(self, tmp_path):
        """
        Another saver object over the same file finds the question and what had finished.
        """
        path = tmp_path / "lg.db"

        def connected():
            return closing(sqlite3.connect(path, check_same_thread=False))

        with connected() as connection:
            graph = ours(SqliteSaver(connection))
            await graph.ainvoke({"log": []}, at())
            await shut(graph)
        with connected() as connection:
            graph = ours(SqliteSaver(connection))
            waiting = await graph.aget_state(at())
            result = await graph.ainvoke(Command(resume="yes"), at())
            every = await history(graph, at())
            await shut(graph)

        assert [i.value for i in waiting.interrupts] == [{"item": 2}]
        assert result["log"] == ["plan", 0, 1, "yes", "end"]
        assert [s.metadata["step"] for s in every] == [3, 2, 1, 0, -1]


class TestLimits:
    def test_one_warning_for_each_class(self):
        """
        The first graph over a class of savers warns of what it can't promise; no later one does.
        """

        class Another(DictSaver):
            pass

        with pytest.warns(ForeignSaverWarning, match="no compare-and-set, no batch") as caught:
            graph = ab(Another())
        ab(Another())

        assert len(caught) == 1
        assert graph.checkpointer.limits[-1] == "order by id"

    def test_graphs_of_one_saver_share_an_adapter(self):
        """
        A saver object has one adapter, which all its graphs use; the graph can be copied to it.
        """
        saver = DictSaver()
        with quietly():
            first, second = ab(saver), ab(saver)

        assert first.checkpointer is second.checkpointer
        assert first.copy({"checkpointer": saver}).checkpointer is first.checkpointer
        assert first.checkpointer.saver is saver

    def test_a_class_without_a_method_is_refused(self):
        """
        A class that inherits LangGraph's refusing methods isn't a saver; the error names them.
        """

        class Half(DictSaver.__mro__[1]):
            def put(self, config, checkpoint, metadata, new_versions):
                return config

        with pytest.raises(GraphBuildError, match="no get_tuple, list, put_writes"):
            ab(Half())

    @pytest.mark.parametrize("kind", ["blocking", "async"])
    async def test_writes_without_a_task_path_are_stored(self, kind):
        """
        A saver for an older LangGraph, whose writes have no path, keeps answers and questions.
        """

        class Older(DictSaver if kind == "blocking" else AsyncDictSaver):
            if kind == "blocking":

                def put_writes(self, config, writes, task_id):
                    super().put_writes(config, writes, task_id)

            else:

                async def aput_writes(self, config, writes, task_id):
                    await super().aput_writes(config, writes, task_id)

        with quietly():
            graph = program(StateGraph, Send, interrupt, Older())
        await graph.ainvoke({"log": []}, at())
        done = await graph.ainvoke(Command(resume="yes"), at())

        assert done["log"] == ["plan", 0, 1, "yes", "end"]

    async def test_unsupported_removals_are_refused(self):
        """
        Removals that LangGraph's interface has no method for are refused, and change nothing.
        """
        with quietly():
            graph = ab(DictSaver())
        await graph.ainvoke({"bar": []}, at())
        saver = graph.checkpointer

        with pytest.raises(NotSupportedError, match="KeepLast"):
            await saver.aprune("t", keep_last=1)
        with pytest.raises(NotSupportedError, match="no delete_for_runs"):
            await saver.adelete_for_runs([(await saver.aget_tuple(at())).metadata["run_id"]])

        assert len(await history(graph, at())) == 4
        await shut(graph)

    async def test_an_error_of_the_saver(self):
        """
        An error of the saver ends the run with a StorageError that names the call.
        """

        class Full(DictSaver):
            def put(self, config, checkpoint, metadata, new_versions):
                raise OSError("no space left")

        with quietly():
            graph = ab(Full())

        with pytest.raises(StorageError, match=r"Full\.put\(\) failed: OSError"):
            await graph.ainvoke({"bar": []}, at())
        await shut(graph)

    async def test_a_value_that_cannot_be_copied(self):
        """
        A value that can't be copied is refused at hand-off, with its path.
        """
        with quietly():
            graph = in_a_row(
                {"a": lambda _: {"n": (x for x in ())}}, schema=Log, checkpointer=DictSaver()
            )

        with pytest.raises(TypeError, match="can't be copied"):
            await graph.ainvoke({}, at())
        await shut(graph)


class TestWrapping:
    @pytest.mark.promise("S222")
    async def test_a_saver_that_forwards_to_another(self):
        """
        A wrapping saver, which journals each call and forwards it, is a checkpointer like any.
        """
        journal = []

        class Forwarding(DictSaver):
            def put(self, *args):
                journal.append("put")
                return super().put(*args)

        with quietly():
            graph = ab(Forwarding())

        await graph.ainvoke({"bar": []}, at())

        assert journal == ["put"] * 4
        assert isinstance(adapt_checkpointer(graph.checkpointer.saver), type(graph.checkpointer))
        await shut(graph)
