"""ActorSystems over every saver that keeps runs, with graphs that wait at turnstiles."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from actorgraph import ActorSystem
from tests.support.every_saver import Store, stored_in
from tests.support.gates import PATIENCE_S, Turnstile
from tests.support.graphs import in_a_row, writer

SYSTEM_KINDS = ["memory", "sqlite", "jsonl", "postgres"]


@pytest.fixture(params=SYSTEM_KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """A place for checkpoints and runs; the test runs once per kind."""
    with stored_in(request, request.param, tmp_path) as made:
        yield made


@asynccontextmanager
async def system_of(place: Store, graph: Any, **options: Any) -> AsyncIterator[ActorSystem]:
    """A system with one graph, "g"; given up, with an error, after PATIENCE_S.

    `await system.drain(0)` as the block's last statement leaves its runs: the block then ends once
    all that they have to store is stored.
    """
    with anyio.fail_after(PATIENCE_S):
        async with ActorSystem({"g": graph}, saver=place.again(), **options) as system:
            yield system


async def kinds(events: Any) -> list[str]:
    """The kinds of all events, in order."""
    return [event.kind async for event in events]


def turnstile_first(slow: Turnstile, then: str = "b", **options: Any) -> Any:
    """A node that waits at a turnstile, and one after it."""
    return in_a_row({"a": slow, then: writer(then)}, **options)
