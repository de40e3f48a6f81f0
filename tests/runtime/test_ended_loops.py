"""Savers whose event loop has ended while they were open in it."""

import asyncio
from collections.abc import Callable
from typing import Any

import anyio
import pytest
import trio

from actorgraph.errors import SaverClosedError
from actorgraph.loops import current_loop, is_over
from tests.runtime.test_hosting import in_threads
from tests.support.gates import PATIENCE_S
from tests.support.graphs import ab, at

ENDED = "event loop in which this saver was opened has ended"


def left_open(saver: Any) -> None:
    """Open a saver and run a graph in a loop that is closed then."""
    loop = asyncio.new_event_loop()
    loop.run_until_complete(opened_and_used(saver))
    loop.close()


async def opened_and_used(saver: Any) -> None:
    await saver.__aenter__()
    await ab(saver).ainvoke({}, at())


def uses(saver: Any) -> dict[str, Callable[[], object]]:
    """The ways to use a saver."""
    graph = ab(saver)

    async def again() -> None:
        with anyio.fail_after(PATIENCE_S):
            await graph.ainvoke({}, at())

    async def entered() -> None:
        async with saver:
            pass

    return {
        "invoke": lambda: graph.invoke({}, at()),
        "get_state": lambda: graph.get_state(at()),
        "list": lambda: list(saver.list(None)),
        "asyncio": lambda: asyncio.run(again()),
        "trio": lambda: trio.run(again),
        "async with": lambda: asyncio.run(entered()),
        "with": saver.__enter__,
    }


WAYS = ["invoke", "get_state", "list", "asyncio", "trio", "async with", "with"]


@pytest.mark.every_saver
@pytest.mark.parametrize("use", WAYS)
def test_each_use_is_an_error_at_once(store, use):
    """
    A saver whose loop was closed refuses each use, and says that its loop has ended.
    """
    saver = store.saver()
    if saver.immediate:
        pytest.skip("it needs no loop")
    left_open(saver)
    errors: list[BaseException] = []

    def used() -> None:
        try:
            uses(saver)[use]()
        except SaverClosedError as error:
            errors.append(error)

    in_threads([used])
    saver.close_blocking()

    assert [ENDED in str(error) for error in errors] == [True]


@pytest.mark.every_saver
def test_it_can_be_closed_and_used_again(store):
    """
    `close_blocking` closes the saver of a loop that has ended; what it has stored is read then.
    """
    saver = store.saver()
    if saver.immediate:
        pytest.skip("it needs no loop")
    left_open(saver)

    in_threads([saver.close_blocking])

    with saver:
        assert ab(saver).get_state(at()).values


@pytest.mark.parametrize("run", [lambda main: asyncio.run(main()), trio.run])
def test_a_loop_is_over_when_it_has_ended(run):
    """
    A loop of asyncio or trio is over once its run has ended, and not before.
    """

    async def main() -> tuple[object, bool]:
        return current_loop(), is_over(current_loop())

    loop, before = run(main)

    assert (before, is_over(loop)) == (False, True)
