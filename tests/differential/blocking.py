"""Blocking methods behind the names of the async ones, and coroutines without an event loop.

So one driver does the same with both: its coroutine never waits where each call has blocked.
"""

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, TypeVar

T = TypeVar("T")

METHODS = ("invoke", "get_state", "update_state", "bulk_update_state", "fork_state", "batch")
ITERATORS = ("stream", "get_state_history")


class Blocking:
    """A graph of either library; `ainvoke` calls `invoke`, `astream` reads `stream`, and so on."""

    def __init__(self, graph: Any) -> None:
        for name in METHODS:
            if hasattr(graph, name):
                setattr(self, f"a{name}", _awaited(getattr(graph, name)))
        for name in ITERATORS:
            setattr(self, f"a{name}", _iterated(getattr(graph, name)))


def _awaited(method: Callable[..., T]) -> Callable[..., Coroutine[Any, Any, T]]:
    async def call(*args: Any, **options: Any) -> T:
        return method(*args, **options)

    return call


def _iterated(method: Callable[..., Iterator[T]]) -> Callable[..., AsyncIterator[T]]:
    async def items(*args: Any, **options: Any) -> AsyncIterator[T]:
        for item in method(*args, **options):
            yield item

    return items


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits, in no event loop."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    finally:
        coroutine.close()
    raise AssertionError
