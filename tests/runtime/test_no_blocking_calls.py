"""No code of the library blocks a program's event loop, as a tool for that sees it.

Programs use blockbuster in their tests and servers: it raises where a known blocking function is
called in the thread of a running loop.
"""

import operator
import threading
from typing import Annotated, Any, TypedDict

import pytest
from blockbuster import BlockingError, blockbuster_ctx

from actorgraph import (
    START,
    ActorSystem,
    InMemorySaver,
    JsonlSaver,
    SqliteSaver,
    StateGraph,
    interrupt,
)
from actorgraph.messages import AIMessage
from actorgraph.prebuilt import ToolNode
from actorgraph.runtime.task import hops
from actorgraph.types import Command

ASYNCIO = pytest.mark.parametrize("anyio_backend", ["asyncio"])  # the tool looks for its loops
CONFIG: Any = {"configurable": {"thread_id": "thread"}}
SAVERS = {
    "none": lambda _: None,
    "memory": lambda _: InMemorySaver(),
    "sqlite": lambda path: SqliteSaver(path / "x.db"),
    "json lines": lambda path: JsonlSaver(path / "x.jsonl"),
}


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]


def plain(state: State) -> State:
    return {"log": ["plain"]}


async def awaits(state: State) -> State:
    return {"log": ["async"]}


def asks(state: State) -> State:
    return {"log": [interrupt("go on?")]}


def graph_of(*nodes: Any, saver: Any = None) -> Any:
    builder = StateGraph(State)
    for number, node in enumerate(nodes):
        builder.add_node(f"n{number}", node)
        builder.add_edge(f"n{number - 1}" if number else START, f"n{number}")
    return builder.compile(saver)


@pytest.fixture(params=[-1.0, 10.0], ids=["no wait", "waits for quick nodes"])
def pace(request, monkeypatch):
    """Whether the loop's thread waits a moment for plain nodes."""
    monkeypatch.setattr(hops, "QUICK_S", request.param)


@ASYNCIO
@pytest.mark.usefixtures("pace")
@pytest.mark.parametrize("kind", SAVERS)
@pytest.mark.parametrize("mode", ["sync", "async", "exit"])
async def test_runs_and_streams(kind, mode, tmp_path):
    """
    Plain and async nodes on each saver, awaited and streamed, never block the loop.
    """
    saver = SAVERS[kind](tmp_path)
    nodes = (plain, awaits, plain, plain)
    options = {} if saver is None else {"durability": mode}

    with blockbuster_ctx():
        if saver is None:
            result = await graph_of(*nodes).ainvoke({})
            chunks = [chunk async for chunk in graph_of(*nodes).astream({})]
        else:
            async with saver:
                graph = graph_of(*nodes, saver=saver)
                result = await graph.ainvoke({}, CONFIG, **options)
                chunks = [chunk async for chunk in graph.astream({}, CONFIG, **options)]

    assert result["log"] == ["plain", "async", "plain", "plain"]
    assert len(chunks) == 4


@ASYNCIO
async def test_a_system(tmp_path):
    """
    Submitted runs, a question and its answer, and the system's start and end never block.
    """
    with blockbuster_ctx():
        async with SqliteSaver(tmp_path / "x.db") as saver:
            graph = graph_of(plain, asks, awaits, saver=saver)
            async with ActorSystem({"g": graph}) as system:
                run = await system.start("g", "thread", {})
                await run.result()
                run = await system.start("g", "thread", Command(resume="yes"))
                result = await run.result()

    assert result["log"] == ["plain", "yes", "async"]


@pytest.mark.parametrize("kind", SAVERS)
def test_blocking_calls_with_tools(kind, tmp_path):
    """
    A blocking call runs a loop of its own: its waits are not taken for faults of the program.
    """
    places: list[int] = []

    def look(city: str) -> str:
        """Look at a city."""
        places.append(threading.get_ident())
        return city

    async def far(city: str) -> str:
        """Look at a city from afar."""
        return city

    saver = SAVERS[kind](tmp_path)
    calls = [
        {"name": n, "args": {"city": n}, "id": n, "type": "tool_call"} for n in ("look", "far")
    ]

    class Messages(TypedDict):
        messages: Annotated[list[Any], operator.add]

    with blockbuster_ctx():
        for tools in ([look], [look, far]):
            builder = StateGraph(Messages).add_node("tools", ToolNode(tools))
            graph = builder.add_edge(START, "tools").compile(saver)
            given = {"messages": [AIMessage("", tool_calls=calls[: len(tools)])]}
            result = graph.invoke(given, None if saver is None else CONFIG)

    assert result["messages"][-2].content == "look"
    assert places[0] == threading.get_ident()


@ASYNCIO
async def test_the_tool_sees_a_blocking_call():
    """
    The check can fail: a node that blocks the loop is refused by the tool.
    """

    async def blocks(state: State) -> State:
        threading.Event().wait(0.01)
        return {}

    with blockbuster_ctx(), pytest.raises(BlockingError):
        await graph_of(blocks).ainvoke({})
