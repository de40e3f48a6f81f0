"""Places for the shipped checks: savers of every kind, and of third parties."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from actorgraph import SqliteSaver
from actorgraph.savers.memory.saver import MemoryBackend
from actorgraph.testing import FaultPlan, FaultySaver, failing_connection
from actorgraph.testing.conformance import Place
from actorgraph.values.commits import CommitOutcome, Query, Request
from tests.support.every_saver import Store


class Savers:
    """Makes the savers of a store; also ones that fail."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def __call__(self) -> Any:
        return self.store.again()

    def failing(self, plan: FaultPlan) -> Any:
        """At each SQL statement of a file; at each call of the port of other kinds."""
        if self.store.kind != "sqlite":
            return FaultySaver(self.store.again(), plan)

        class Failing(SqliteSaver):
            connection_class = failing_connection(plan)

        return Failing(self.store.path)


def place_of(store: Store) -> Place:
    """The place of a store; it is empty, so it serves for one check."""

    @asynccontextmanager
    async def place() -> AsyncIterator[Savers]:
        yield Savers(store)

    return place


class LogSaver:
    """A custom saver: the port's four methods over a log of what was stored."""

    durable = True
    immediate = False

    def __init__(self, log: list[Request]) -> None:
        self.log = log

    async def open(self) -> None:
        self._memory = MemoryBackend()
        self._memory.commit_now(self.log)

    async def commit(self, batch: Sequence[Request]) -> list[CommitOutcome]:
        self.log += batch
        return self._memory.commit_now(batch)

    async def query(self, queries: Sequence[Query]) -> list[Any]:
        return self._memory.query_now(queries)

    async def close(self) -> None:
        del self._memory


@asynccontextmanager
async def logs() -> AsyncIterator[Any]:
    """A place for logs."""
    log: list[Request] = []
    yield lambda: LogSaver(log)


@asynccontextmanager
async def langgraphs() -> AsyncIterator[Any]:
    """LangGraph's own saver in memory."""
    from langgraph.checkpoint.memory import InMemorySaver

    saver = InMemorySaver()
    yield lambda: saver
