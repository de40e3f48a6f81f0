"""The two libraries under the same names: the only place that knows which one is measured.

Everything else of a workload is one source for both, because actorgraph's API carries
LangGraph's names.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
)
from dataclasses import dataclass
from importlib import import_module, metadata
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Library:
    """The imports of a workload.

    Attributes:
        open_sqlite: (path, PRAGMA synchronous) -> an open saver, as `async with`.
        open_sqlite_blocking: path -> an open saver with synchronous=FULL, as `with`.
        open_postgres: address of an empty database -> an open saver, as `async with`.
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
    get_stream_writer: Any
    open_sqlite: Callable[[Path, str], AbstractAsyncContextManager[Any]]
    open_sqlite_blocking: Callable[[Path], AbstractContextManager[Any]]
    open_postgres: Callable[[str], AbstractAsyncContextManager[Any]]
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
    "langgraph": ("langgraph", "langgraph-checkpoint-sqlite", "langgraph-checkpoint-postgres"),
    "burr": ("apache-burr",),
    "pydantic-graph": ("pydantic-graph",),
    "workflows": ("llama-index-workflows",),
    "dbos": ("dbos",),
}


POSTGRES_CONNECTIONS = 5
"""As many as our saver opens: one for writing and four for reading."""


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

    @contextmanager
    def open_sqlite_blocking(path: Path) -> Iterator[Any]:
        with package.SqliteSaver(str(path)) as saver:
            yield saver

    @asynccontextmanager
    async def open_postgres(url: str) -> AsyncIterator[Any]:
        async with package.PostgresSaver(url) as saver:
            yield saver

    return Library(
        name="actorgraph",
        StateGraph=package.StateGraph,
        START=package.START,
        END=package.END,
        Send=package.Send,
        InMemorySaver=package.InMemorySaver,
        add_messages=package.add_messages,
        get_stream_writer=package.get_stream_writer,
        open_sqlite=open_sqlite,
        open_sqlite_blocking=open_sqlite_blocking,
        open_postgres=open_postgres,
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

    @contextmanager
    def open_sqlite_blocking(path: Path) -> Iterator[Any]:
        module = import_module("langgraph.checkpoint.sqlite")
        with module.SqliteSaver.from_conn_string(str(path)) as saver:
            saver.setup()
            saver.conn.execute("PRAGMA synchronous=FULL")
            yield saver

    return Library(
        name="langgraph",
        StateGraph=graph.StateGraph,
        START=graph.START,
        END=graph.END,
        Send=import_module("langgraph.types").Send,
        InMemorySaver=import_module("langgraph.checkpoint.memory").InMemorySaver,
        add_messages=graph.add_messages,
        get_stream_writer=import_module("langgraph.config").get_stream_writer,
        open_sqlite=open_sqlite,
        open_sqlite_blocking=open_sqlite_blocking,
        open_postgres=_langgraph_postgres,
        statistics=lambda _saver: None,
    )


@asynccontextmanager
async def _langgraph_postgres(url: str) -> AsyncIterator[Any]:
    """Its saver over a pool, in its favour: over one connection its statements take turns."""
    module = import_module("langgraph.checkpoint.postgres.aio")
    pools, rows = import_module("psycopg_pool"), import_module("psycopg.rows")
    # What its `from_conn_string` sets on a connection.
    settings = {"autocommit": True, "prepare_threshold": 0, "row_factory": rows.dict_row}
    size = {"min_size": POSTGRES_CONNECTIONS, "max_size": POSTGRES_CONNECTIONS}
    # A thousand threads wait for a connection: longer than the pool's default.
    pool = pools.AsyncConnectionPool(url, kwargs=settings, open=False, timeout=600, **size)
    async with pool:
        saver = module.AsyncPostgresSaver(pool)
        await saver.setup()
        yield saver
