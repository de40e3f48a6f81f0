"""Event streams of versions 1 and 2 by LangChain itself, in programs that have imported it.

LangChain makes the events of the callbacks that a run causes: of graphs, nodes and routers, and of
every Runnable, model, tool and custom event below them. asyncio only.

This module imports LangChain.
"""

from collections.abc import AsyncGenerator
from typing import Any, Self

from langchain_core.runnables import Runnable

from actorgraph.api.streams.langchain_events import CallbackEvents, StreamEvent
from actorgraph.errors import InvalidConfigError
from actorgraph.loops import on_trio

Events = AsyncGenerator[StreamEvent, None]

_OPEN: set[Events] = set()
"""Generators that are being read. The collector would close those of a left reader, which run one
inside the other, in any order; freed from here, the outermost closes the others."""


class ChainEvents(CallbackEvents):
    """LangChain's events of one run. Iterate it once; leaving it early ends the run.

    `async with` and `aclose()` wait for the run's end.

    Args:
        graph: a compiled graph, which is a Runnable.
        version: "v1" or "v2".
        options: of LangChain (`include_names`, ...), and of `astream`.
    Raises:
        InvalidConfigError: the event loop is trio's.
    """

    def __init__(
        self, graph: Any, given: Any, config: Any, version: str, options: dict[str, Any]
    ) -> None:
        read: Any = Runnable.astream_events
        self._events: Events = read(graph, given, config, version=version, **options)
        self._begun = False
        if on_trio():
            raise InvalidConfigError(
                f"events of version={version!r} are made by LangChain, which runs on asyncio only",
                do='use version="v2", which runs on trio too',
            )

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> StreamEvent:
        """Return the next event.

        Raises:
            StopAsyncIteration: the run has ended, or waits at an interrupt.
            Exception: the error that the run failed with.
        """
        if not self._begun:
            self._begun = True
            _OPEN.add(self._events)
        try:
            return await anext(self._events)
        except BaseException:
            _OPEN.discard(self._events)
            raise

    async def aclose(self) -> None:
        """End the run, if it is active, and wait until it has stored its finished work."""
        _OPEN.discard(self._events)
        await self._events.aclose()

    def __del__(self) -> None:
        """Free the generator: its loop closes it, which ends the run."""
        _OPEN.discard(self._events)
