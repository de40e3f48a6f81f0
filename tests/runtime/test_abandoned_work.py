"""Work of a node that goes on in its thread, or in a task of its own, when its run has left."""

import threading
from collections.abc import Callable
from typing import Any

import anyio
import anyio.to_thread
import pytest

from actorgraph import InMemorySaver, StateGraph, step, task
from actorgraph.errors import NodeCancelledError, OutsideRunError
from tests.support.graphs import at, in_a_row
from tests.support.subgraphs import Log


@task
async def quick() -> str:
    return "done"


INNER = in_a_row({"inner": lambda _: {"log": ["inner"]}}, schema=Log)


@pytest.mark.parametrize(
    ("act", "error"),
    [
        (lambda: quick().result(), NodeCancelledError),
        (lambda: step("key", lambda: "done"), NodeCancelledError),
        (lambda: INNER.invoke({"log": []}), OutsideRunError),
    ],
    ids=["call", "step", "graph"],
)
async def test_an_abandoned_thread_does_not_wait_for_ever(
    act: Callable[[], Any], error: type[Exception]
) -> None:
    """
    A sync node whose run was cancelled starts nothing more; a call, a step or a graph raises.
    """
    began, goes_on, ended = threading.Event(), threading.Event(), threading.Event()
    raised: list[BaseException] = []

    def node(_: Log) -> None:
        began.set()
        goes_on.wait(10)
        try:
            act()
        except BaseException as found:
            raised.append(found)
            raise
        finally:
            ended.set()

    builder = StateGraph(Log)
    builder.add_node("node", node)
    builder.set_entry_point("node")
    graph = builder.compile(checkpointer=InMemorySaver())
    async with anyio.create_task_group() as group:
        group.start_soon(graph.ainvoke, {"log": []}, at())
        await anyio.to_thread.run_sync(began.wait, 10)
        group.cancel_scope.cancel()
    goes_on.set()

    assert await anyio.to_thread.run_sync(ended.wait, 10)
    assert [type(found) for found in raised] == [error]


async def test_a_call_of_a_task_that_outlives_its_run() -> None:
    """
    A task that a node has left running gets no result of a call that it makes after the run.
    """
    left, found = anyio.Event(), list[BaseException]()

    async def later() -> None:
        await left.wait()
        try:
            await quick()
        except NodeCancelledError as error:
            found.append(error)

    async with anyio.create_task_group() as group:

        async def node(_: Log) -> None:
            group.start_soon(later)

        graph = in_a_row({"node": node}, schema=Log)
        await graph.ainvoke({"log": []})
        left.set()

    assert len(found) == 1
