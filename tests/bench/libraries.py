"""The two libraries under the same names: the only place that knows which one is measured.

Everything else of a workload is one source for both, because actorgraph's API carries
LangGraph's names.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from importlib import import_module, metadata
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Library:
    """The imports of a workload.

    Attributes:
        open_sqlite: (path, PRAGMA synchronous) -> an open saver, as `async with`.
        statistics: an open saver -> how many messages went into how many commits; None if
            the saver does not count.
    """

    name: str
    StateGraph: Any
    START: str
    END: str
    Send: Any
    InMemorySaver: Any
    add_messages: Any
    open_sqlite: Callable[[Path, str], AbstractAsyncContextManager[Any]]
    statistics: Callable[[Any], dict[str, int] | None]


IMPORTS = {
    "actorgraph": "from actorgraph import END, START, InMemorySaver, Send, StateGraph",
    "langgraph": (
        "from langgraph.graph import END, START, StateGraph\n"
        "from langgraph.types import Send\n"
        "from langgraph.checkpoint.memory import InMemorySaver"
    ),
}
"""The import statements of a program with these names; `import_time` measures them."""

DISTRIBUTIONS = {
    "actorgraph": ("actorgraph",),
    "langgraph": ("langgraph", "langgraph-checkpoint-sqlite"),
}


def load(name: str) -> Library:
    """Import one of the two."""
    return {"actorgraph": _actorgraph, "langgraph": _langgraph}[name]()


def versions(name: str) -> dict[str, str]:
    """The installed versions of a library's distributions."""
    found = {}
    for distribution in DISTRIBUTIONS[name]:
        try:
            found[distribution] = metadata.version(distribution)
        except metadata.PackageNotFoundError:
            found[distribution] = "from the source tree"
    return found


def _actorgraph() -> Library:
    """The subject. Its SqliteSaver is opened as a program opens it: FULL is its default."""
    package = import_module("actorgraph")

    @asynccontextmanager
    async def open_sqlite(path: Path, synchronous: str) -> AsyncIterator[Any]:
        options = {} if synchronous == "FULL" else {"synchronous": synchronous}
        async with package.SqliteSaver(str(path), **options) as saver:
            yield saver

    return Library(
        name="actorgraph",
        StateGraph=package.StateGraph,
        START=package.START,
        END=package.END,
        Send=package.Send,
        InMemorySaver=package.InMemorySaver,
        add_messages=package.add_messages,
        open_sqlite=open_sqlite,
        statistics=_actorgraph_statistics,
    )


def _actorgraph_statistics(saver: Any) -> dict[str, int] | None:
    """The persistence actor's counters; messages / commits is the mean batch."""
    statistics = saver.statistics()
    return {"messages": statistics.messages, "commits": statistics.commits}


def _langgraph() -> Library:
    """The rival. It leaves PRAGMA synchronous to SQLite's build; here both promise the same."""
    graph = import_module("langgraph.graph")

    @asynccontextmanager
    async def open_sqlite(path: Path, synchronous: str) -> AsyncIterator[Any]:
        module = import_module("langgraph.checkpoint.sqlite.aio")
        async with module.AsyncSqliteSaver.from_conn_string(str(path)) as saver:
            await saver.setup()
            await saver.conn.execute(f"PRAGMA synchronous={synchronous}")
            yield saver

    return Library(
        name="langgraph",
        StateGraph=graph.StateGraph,
        START=graph.START,
        END=graph.END,
        Send=import_module("langgraph.types").Send,
        InMemorySaver=import_module("langgraph.checkpoint.memory").InMemorySaver,
        add_messages=graph.add_messages,
        open_sqlite=open_sqlite,
        statistics=lambda _saver: None,
    )
