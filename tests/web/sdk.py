"""LangGraph's client and a server for it, as fixtures."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient

from tests.web.apps import application
from tests.web.server import running

NEW = {"foo": "a", "log": ["input"]}
DONE = {"foo": "a", "log": ["input", "first", "second"]}


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """The client runs on asyncio only."""
    return "asyncio"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    path: Path = tmp_path_factory.mktemp("sdk") / "runs.db"
    with running(application(path)) as url:
        yield url


@pytest.fixture
async def client(address: str) -> AsyncIterator[LangGraphClient]:
    async with get_client(url=address) as made:
        yield made


async def names(stream: Any) -> list[str]:
    return [part.event async for part in stream]
