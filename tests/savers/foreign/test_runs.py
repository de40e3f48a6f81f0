"""Graphs on savers that other people wrote: everything that needs a checkpointer, end to end."""

import operator
from typing import Annotated, TypedDict

import anyio
import pytest
from langgraph.checkpoint.memory import InMemorySaver

from actorgraph import START, Command, ConflictError, Send, StateGraph, interrupt
from actorgraph.channels import DeltaChannel
from tests.savers.foreign.plain import quietly
from tests.support.graphs import AB, ab, at, chain, compiled, history, in_a_row


class Log(TypedDict, total=False):
    log: Annotated[list, operator.add]
    n: int


def asks(state):
    """Ask two questions, and log the answers."""
    return {"log": [interrupt({"ask": "first"}), interrupt({"ask": "second"})]}


def says(text):
    return lambda _: {"log": [text]}


async def _stored(saver) -> list:
    try:
        return [point async for point in saver.alist(at())]
    except NotImplementedError:
        return [*saver.list(at())]


def over_items(checkpointer):
    """Fan out over three items, one of which asks."""

    def item(state):
        return {"log": [interrupt("?") if state["n"] == 1 else state["n"]]}

    builder = StateGraph(Log)
    builder.add_node("plan", lambda _: {})
    builder.add_node("item", item)
    builder.add_edge(START, "plan")
    builder.add_conditional_edges("plan", lambda _: [Send("item", {"n": n}) for n in range(3)])
    return builder.compile(checkpointer=checkpointer)


class TestRuns:
    @pytest.mark.promise("S054", "S190")
    @pytest.mark.langgraph("F-E1")
    @pytest.mark.parametrize("durability", ["sync", "async", "exit"])
    async def test_a_thread_goes_on_in_every_mode(self, foreign, durability):
        """
        Two nodes leave LangGraph's checkpoints, and a second call goes on from them, whether the
        saver counts versions in text, integers or floats.
        """
        graph = ab(foreign)

        await graph.ainvoke({"bar": ["x"]}, at(), durability=durability)
        result = await graph.ainvoke({"bar": ["y"]}, at(), durability=durability)

        assert result == {"foo": "b", "bar": ["x", "a", "b", "y", "a", "b"]}
        assert (await graph.aget_state(at())).values == result
        steps = [s.metadata["step"] for s in await history(graph, at())]
        assert steps == ([6, 2] if durability == "exit" else list(range(6, -2, -1)))
        counted = [point.checkpoint["channel_versions"] for point in await _stored(foreign)]
        first = foreign.get_next_version(None, None)
        assert {type(v) for versions in counted for v in versions.values()} == {type(first)}

    async def test_threads_do_not_see_each_other(self, foreign):
        """
        The values of one thread are not in the other one.
        """
        graph = ab(foreign)

        await graph.ainvoke({"bar": ["x"]}, at("1"))
        await graph.ainvoke({"bar": ["y"]}, at("2"))

        assert (await graph.aget_state(at("1"))).values["bar"] == ["x", "a", "b"]
        assert (await graph.aget_state(at("2"))).values["bar"] == ["y", "a", "b"]

    @pytest.mark.promise("S190")
    async def test_a_failed_node_runs_again_and_its_siblings_do_not(self, foreign):
        """
        Results that finished beside a failure are kept as pending writes.
        """
        ran = []

        def fails(_):
            ran.append("fails")
            if ran.count("fails") == 1:
                raise ValueError("not yet")
            return {"log": ["at last"]}

        def works(_):
            ran.append("works")
            return {"log": ["done"]}

        nodes = {"works": works, "zfails": fails}
        graph = compiled(nodes, [(START, name) for name in nodes], schema=Log, checkpointer=foreign)
        with pytest.raises(ValueError, match="not yet"):
            await graph.ainvoke({}, {**at(), "max_concurrency": 1})
        failed = await graph.aget_state(at())

        result = await graph.ainvoke(None, at())

        assert "not yet" in str(failed.error)
        assert result["log"] == ["done", "at last"]
        assert ran.count("works") == 1

    async def test_many_at_once(self, foreign):
        """
        Twenty threads at once end as they would alone.
        """
        graph = chain("abc", checkpointer=foreign)

        async with anyio.create_task_group() as group:
            for n in range(20):
                group.start_soon(graph.ainvoke, {"bar": [str(n)]}, at(f"t{n}"))

        states = [(await graph.aget_state(at(f"t{n}"))).values["bar"] for n in range(20)]
        assert states == [[str(n), "a", "b", "c"] for n in range(20)]

    async def test_later_changes_by_a_node_are_not_stored(self, foreign):
        """
        Values are copied when they are handed over, and when they are read.
        """
        kept = []

        def keeps(state):
            kept.append({"deep": [1]})
            return {"log": [kept[-1]]}

        def changes(state):
            kept[0]["deep"].append(2)
            return {}

        graph = in_a_row({"keeps": keeps, "changes": changes}, schema=Log, checkpointer=foreign)
        await graph.ainvoke({}, at(), durability="async")
        read = (await graph.aget_state(at())).values
        read["log"][0]["deep"].append(3)

        stored = [s.values.get("log") for s in await history(graph, at())]

        assert stored[:2] == [[{"deep": [1]}], [{"deep": [1]}]]


class TestQuestions:
    @pytest.mark.promise("S190")
    async def test_two_questions_of_one_node(self, foreign):
        """
        Each answer reaches its question, in calls of their own.
        """
        graph = in_a_row({"asks": asks, "end": says("end")}, schema=Log, checkpointer=foreign)

        await graph.ainvoke({"log": []}, at())
        first = await graph.aget_state(at())
        await graph.ainvoke(Command(resume="A"), at())
        second = await graph.aget_state(at())
        result = await graph.ainvoke(Command(resume="B"), at())

        assert [i.value for i in first.interrupts] == [{"ask": "first"}]
        assert [i.value for i in second.interrupts] == [{"ask": "second"}]
        assert result["log"] == ["A", "B", "end"]
        assert (await graph.aget_state(at())).interrupts == ()

    async def test_questions_of_sends_by_id(self, foreign):
        """
        A Send that asks waits; the others' results are kept beside the checkpoint.
        """
        graph = over_items(foreign)

        await graph.ainvoke({"log": []}, at())
        waiting = await graph.aget_state(at())
        (asked,) = waiting.interrupts
        result = await graph.ainvoke(Command(resume={asked.id: "answer"}), at())

        assert waiting.next == ("item",)
        assert result["log"] == [0, "answer", 2]

    @pytest.mark.parametrize("durability", ["sync", "exit"])
    async def test_a_question_in_a_subgraph(self, foreign, durability):
        """
        A nested graph's checkpoints are in their own namespace; its question is answered there.
        """
        inner = in_a_row({"before": says("before"), "asks": asks}, schema=Log)
        graph = in_a_row({"outer": inner, "end": says("end")}, schema=Log, checkpointer=foreign)

        await graph.ainvoke({"log": []}, at(), durability=durability)
        waiting = await graph.aget_state(at(), subgraphs=True)
        await graph.ainvoke(Command(resume="A"), at(), durability=durability)
        result = await graph.ainvoke(Command(resume="B"), at(), durability=durability)

        assert waiting.tasks[0].state.values["log"] == ["before"]
        assert result["log"] == ["before", "A", "B", "end"]

    async def test_a_stateful_subgraph_remembers(self, foreign):
        """
        A graph compiled with checkpointer=True keeps its state from call to call.
        """
        inner = in_a_row({"says": says("in")}, schema=Log, checkpointer=True)

        async def calls(state):
            return {"n": len((await inner.ainvoke({"log": []}))["log"])}

        graph = in_a_row({"calls": calls}, schema=Log, checkpointer=foreign)

        counts = [(await graph.ainvoke({}, at()))["n"] for _ in range(3)]

        assert counts == [1, 2, 3]


class TestTravel:
    async def test_a_replay_branches(self, foreign):
        """
        From an older checkpoint a run goes on beside what came after, and that stays as it was.
        """
        graph = chain("abc", checkpointer=foreign)
        await graph.ainvoke({"bar": []}, at())
        before = await history(graph, at())
        after_a = next(s for s in before if s.next == ("b",))

        result = await graph.ainvoke(None, after_a.config)

        assert result["bar"] == ["a", "b", "c"]
        after = await history(graph, at())
        assert after[-len(before) :] == before
        assert len(after) > len(before)

    async def test_an_update_forks(self, foreign):
        """
        An update of an old checkpoint is the new head, with the values of its parent.
        """
        graph = chain("ab", checkpointer=foreign)
        await graph.ainvoke({"bar": ["x"]}, at())
        old = next(s for s in await history(graph, at()) if s.next == ("b",))

        await graph.aupdate_state(old.config, {"bar": ["edited"]}, as_node="a")
        result = await graph.ainvoke(None, at())

        assert result["bar"] == ["x", "a", "edited", "b"]

    async def test_a_copy_of_a_checkpoint(self, foreign):
        """
        A copy has its original's values although its parent is another one.
        """
        graph = chain("ab", checkpointer=foreign)
        await graph.ainvoke({"bar": ["x"]}, at())

        config = await graph.aupdate_state(at(), None, "__copy__")

        assert (await graph.aget_state(config)).values["bar"] == ["x", "a", "b"]

    async def test_several_commands_on_one_checkpoint(self, foreign):
        """
        Updates by Command on a waiting thread are each kept until the next superstep.
        """
        graph = in_a_row({"asks": asks}, schema=Log, checkpointer=foreign)
        await graph.ainvoke({"log": []}, at())

        for n in range(3):
            await graph.ainvoke(Command(update={"log": [n]}), at())
        await graph.ainvoke(Command(resume="A"), at())
        result = await graph.ainvoke(Command(resume="B"), at())

        assert result["log"] == [0, 1, 2, "A", "B"]

    async def test_history_is_filtered_and_paged(self, foreign):
        """
        A listing takes metadata, a bound and a limit.
        """
        graph = chain("abcd", checkpointer=foreign)
        await graph.ainvoke({"bar": []}, at())
        every = await history(graph, at())

        assert [s.config for s in await history(graph, at(), limit=2)] == [
            s.config for s in every[:2]
        ]
        older = await history(graph, at(), before=every[2].config)
        assert [s.config for s in older] == [s.config for s in every[3:]]
        assert len(await history(graph, at(), filter={"source": "input"})) == 1

    async def test_deltas_are_folded_again(self, foreign):
        """
        A DeltaChannel's value is found from its ancestors' writes.
        """
        rule = DeltaChannel(lambda old, writes: [*(old or []), *writes], snapshot_frequency=3)

        class Schema(TypedDict):
            log: Annotated[list, rule]

        names = "abcdefg"
        nodes = {name: (lambda _, name=name: {"log": name}) for name in names}
        graph = in_a_row(nodes, schema=Schema, checkpointer=foreign)

        await graph.ainvoke({"log": "in"}, at())

        assert (await graph.aget_state(at())).values["log"] == ["in", *names]


class TestOneRun:
    async def test_of_two_runs_one_conflicts(self, foreign):
        """
        Two runs of this process on one thread: one gets a ConflictError, and runs nothing.
        """
        ran, goes = [], anyio.Event()

        async def node(state: AB):
            ran.append(1)
            await goes.wait()
            return {"foo": "x"}

        graph = in_a_row({"node": node}, checkpointer=foreign)
        twin = in_a_row({"node": node}, checkpointer=foreign)
        outcomes = []

        async def call(which) -> None:
            try:
                outcomes.append(await which.ainvoke({}, at()))
            except ConflictError as error:
                outcomes.append(error)
                goes.set()

        async with anyio.create_task_group() as group:
            group.start_soon(call, graph)
            group.start_soon(call, twin)

        assert len(ran) == 1
        assert sorted(type(o).__name__ for o in outcomes) == ["ConflictError", "dict"]

    async def test_a_deleted_thread_is_not_brought_back(self, foreign):
        """
        A run whose thread was deleted meanwhile stores nothing more.
        """
        began, goes = anyio.Event(), anyio.Event()

        async def node(state: AB):
            began.set()
            await goes.wait()
            return {"foo": "x"}

        graph = in_a_row({"node": node}, checkpointer=foreign)
        saver = graph.checkpointer
        async with anyio.create_task_group() as group:

            async def runs() -> None:
                with pytest.raises(ConflictError):
                    await graph.ainvoke({}, at())

            group.start_soon(runs)
            await began.wait()
            await saver.adelete_thread("t")
            goes.set()

        assert await saver.alist_threads() == []
        assert (await graph.ainvoke({"bar": ["new"]}, at()))["foo"] == "x"

    def test_blocking_calls(self):
        """
        The blocking facade works over LangGraph's savers too.
        """
        with quietly():
            graph = ab(InMemorySaver())

        graph.invoke({"bar": ["x"]}, at())

        assert graph.get_state(at()).values["bar"] == ["x", "a", "b"]
        graph.checkpointer.close_blocking()
