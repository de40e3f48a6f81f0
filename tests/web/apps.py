"""The graphs that the tests serve, and the application over them."""

from operator import add
from pathlib import Path
from typing import Annotated, Any, TypedDict

import anyio

from actorgraph import (
    ActorSystem,
    MessagesState,
    SqliteSaver,
    StateGraph,
    get_stream_writer,
    interrupt,
)
from actorgraph.messages import AIMessageChunk
from actorgraph.runtime.task.messages import get_message_writer
from actorgraph.stores import InMemoryStore
from actorgraph.web import served


class Log(TypedDict, total=False):
    """The lines that nodes have written."""

    foo: str
    log: Annotated[list[str], add]


async def first(state: Log) -> dict[str, Any]:
    """Write, and send a custom chunk about it."""
    get_stream_writer()({"at": "first"})
    return {"log": ["first"]}


async def second(state: Log) -> dict[str, Any]:
    """Write."""
    return {"log": ["second"]}


async def ask(state: Log) -> dict[str, Any]:
    """Ask a person."""
    return {"log": [f"answer: {interrupt('why?')}"]}


async def fail(state: Log) -> dict[str, Any]:
    """Fail."""
    msg = "broken"
    raise ValueError(msg)


async def sleep(state: Log) -> dict[str, Any]:
    """Go on until it is stopped."""
    await anyio.sleep_forever()
    return {}


async def talk(state: MessagesState) -> dict[str, Any]:
    """Say hello in two pieces."""
    write = get_message_writer()
    for piece in ("Hel", "lo"):
        write(AIMessageChunk(piece, id="1"))
    return {"messages": [AIMessageChunk("Hello", id="1")]}


def chain(*nodes: Any, schema: Any = Log) -> StateGraph:
    """The nodes one after the other."""
    return StateGraph(schema).add_sequence(nodes).set_entry_point(nodes[0].__name__)


GRAPHS = {
    "log": chain(first, second),
    "ask": chain(first, ask),
    "fail": chain(first, fail),
    "sleep": chain(first, sleep),
    "talk": chain(talk, schema=MessagesState),
}


def application(
    path: Path, *, saver: Any = None, graphs: dict[str, StateGraph] = GRAPHS, **options: Any
) -> Any:
    """All of them over a file, or over another saver, with routes."""
    saver = saver or SqliteSaver(path)
    compiled = {name: graph.compile(checkpointer=saver) for name, graph in graphs.items()}
    return served(ActorSystem(compiled, saver=saver, store=InMemoryStore()), **options)
