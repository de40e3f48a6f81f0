"""The timeline of a thread: attempts, times and errors of its tasks."""

from operator import add
from typing import Annotated, TypedDict

import pytest
import sniffio

from actorgraph import Command, InMemorySaver, RetryPolicy, StateGraph, interrupt, task
from actorgraph.graph import START
from tests.savers.foreign.plain import quietly
from tests.support.graphs import at

FAST = RetryPolicy(initial_interval=0.0, jitter=False, retry_on=ConnectionError)


class Log(TypedDict, total=False):
    log: Annotated[list, add]


@task
async def helper(number):
    return number


def flaky(failures):
    left = [ConnectionError(f"no {n}") for n in range(failures)]

    async def node(state):
        if left:
            raise left.pop(0)
        return {"log": [await helper(1)]}

    return node


def asks(state):
    return {"log": [interrupt("?")]}


def graph_of(saver, failures=2, **policy):
    builder = StateGraph(Log).add_node("flaky", flaky(failures), **policy).add_node("asks", asks)
    return builder.add_edge(START, "flaky").add_edge("flaky", "asks").compile(checkpointer=saver)


async def read(graph, **options):
    steps = await graph.aget_timeline("t", **options)
    return {task.name: task for step in steps for task in step.tasks}


class TestTimeline:
    async def test_attempts_of_a_retry_policy_are_shown(self):
        """
        Each attempt of a retried task has its times and error; calls are tasks of their own.
        """
        graph = graph_of(InMemorySaver(), retry_policy=FAST)
        await graph.ainvoke({}, at("t"))
        found = await read(graph)

        flaky = found["flaky"]
        assert [a.status for a in flaky.attempts] == ["failed", "failed", "done"]
        assert flaky.attempts[0].error == "ConnectionError('no 0')"
        times = [moment for a in flaky.attempts for moment in (a.start, a.end)]
        assert None not in times
        assert times == sorted(times)
        assert found["helper"].is_call
        assert flaky.attempts[-1].start <= found["helper"].start <= found["helper"].end <= flaky.end

    async def test_attempts_of_several_runs_are_one_tasks(self):
        """
        A failure of one run and the success of the next are attempts of the same task.
        """
        graph = graph_of(InMemorySaver(), failures=1)
        with pytest.raises(ConnectionError):
            await graph.ainvoke({}, at("t"))
        failed = (await read(graph))["flaky"]
        await graph.ainvoke(None, at("t"))
        found = (await read(graph))["flaky"]

        assert (failed.status, found.status, found.id) == ("failed", "done", failed.id)
        assert [a.status for a in found.attempts] == ["failed", "done"]
        assert found.error == "ConnectionError('no 0')"

    async def test_a_question_is_an_attempt(self):
        """
        A task that asked has one attempt that waits, and after the answer one that is done.
        """
        graph = graph_of(InMemorySaver(), failures=0)
        await graph.ainvoke({}, at("t"))
        waiting = (await read(graph))["asks"]
        await graph.ainvoke(Command(resume="x"), at("t"))

        assert (waiting.status, len(waiting.attempts)) == ("waiting", 1)
        assert [a.status for a in (await read(graph))["asks"].attempts] == ["waiting", "done"]

    async def test_steps_are_newest_first_and_paged(self):
        """
        A page continues before a checkpoint; a config with a checkpoint names one step.
        """
        graph = graph_of(InMemorySaver(), failures=0)
        await graph.ainvoke({}, at("t"))
        steps = await graph.aget_timeline("t")
        rest = await graph.aget_timeline("t", before=steps[0].checkpoint_id, limit=1)
        one = await graph.aget_timeline(at("t", checkpoint_id=steps[1].checkpoint_id))

        assert [step.step for step in steps] == [2, 1, 0]
        assert [step.next for step in steps] == [("asks",), ("flaky",), ("__start__",)]
        assert rest == one == [steps[1]]
        assert await graph.aget_timeline("unknown") == []

    async def test_a_langgraph_saver_keeps_the_times(self):
        """
        A saver of LangGraph's keeps them where its own readers don't take them for writes.
        """
        from langgraph.checkpoint.memory import InMemorySaver as Foreign

        if sniffio.current_async_library() == "trio":
            pytest.skip("it needs asyncio")
        with quietly():
            graph = graph_of(Foreign(), 0)
        await graph.ainvoke({}, at("t"))
        found = await read(graph)

        assert None not in (found["flaky"].start, found["asks"].end)

    def test_the_blocking_form_reads_the_same(self):
        """
        get_timeline returns what aget_timeline does.
        """
        graph = graph_of(InMemorySaver(), failures=0)
        graph.invoke({}, at("t"))

        assert [step.step for step in graph.get_timeline("t")] == [2, 1, 0]
