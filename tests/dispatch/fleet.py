"""Systems over one saver in memory and one dispatcher in memory."""

from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from actorgraph import ActorSystem, InMemorySaver
from actorgraph.dispatch import InMemoryDispatcher
from tests.support.gates import PATIENCE_S
from tests.support.graphs import in_a_row, writer


class Fleet:
    """Systems over one saver in memory and one dispatcher."""

    def __init__(self, saver: InMemorySaver) -> None:
        self.saver = saver
        self.dispatcher = InMemoryDispatcher()
        self.began: list[str] = []

    def system(
        self, role: Any = "both", node: Any = None, *, names: Any = ("g",), **options: Any
    ) -> ActorSystem:
        """Make a system of one graph, "g", or of the same under several names."""
        graph = in_a_row({"a": node or writer("a")})
        graphs = dict.fromkeys(names, graph)
        return ActorSystem(
            graphs, saver=self.saver, dispatcher=self.dispatcher, role=role, **options
        )


@pytest.fixture
async def fleet():
    """
    An empty fleet.
    """
    async with InMemorySaver() as saver:
        yield Fleet(saver)


@asynccontextmanager
async def soon():
    """Fail a block that takes too long."""
    with anyio.fail_after(PATIENCE_S):
        yield
