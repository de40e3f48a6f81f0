"""Savers of LangGraph's interface, by the fixture `foreign`."""

import sqlite3
from contextlib import AsyncExitStack, closing

import anyio.to_thread
import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from actorgraph.api.savers.adapt import adapt_checkpointer
from tests.savers.foreign.plain import AsyncDictSaver, DictSaver, quietly

KINDS = ["lg-memory", "lg-sqlite", "lg-async-sqlite", "dict", "async-dict"]


@pytest.fixture(params=KINDS)
async def foreign(request, tmp_path, anyio_backend):
    """A saver that LangGraph's users have; the test runs once per kind."""
    path = str(tmp_path / "lg.db")
    async with AsyncExitStack() as stack:
        match request.param:
            case "lg-memory":
                saver = InMemorySaver()
            case "lg-sqlite":
                connection = sqlite3.connect(path, check_same_thread=False)
                saver = SqliteSaver(stack.enter_context(closing(connection)))
            case "lg-async-sqlite":
                if anyio_backend != "asyncio":
                    pytest.skip("it needs asyncio")
                made = AsyncSqliteSaver.from_conn_string(path)
                saver = await stack.enter_async_context(made)
            case "dict":
                saver = DictSaver()
            case _:
                saver = AsyncDictSaver()
        with quietly():
            host = adapt_checkpointer(saver)
        yield saver
        await anyio.to_thread.run_sync(host.close_blocking)
