"""SpanStream: a run's version 2 events as an async iterator."""

from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, Self

from actorgraph.api.events.spans import SpanEvents, StreamEvent
from actorgraph.api.stream import ChunkStream
from actorgraph.runtime.closing import Closing


class SpanStream(Closing, AsyncIterator[StreamEvent]):
    """LangChain's events of one run. Iterate it once; leaving it early ends the run.

    `async with` and `aclose()` wait for the run's end.
    """

    def __init__(
        self, stream: ChunkStream, spans: SpanEvents, takes: Callable[[StreamEvent], bool]
    ) -> None:
        self._stream = stream
        self._spans = spans
        self._takes = takes
        self._events: deque[StreamEvent] = deque()
        self._add(spans.begin())
        self._ended = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> StreamEvent:
        """Return the next event.

        Raises:
            StopAsyncIteration: the run has ended, or waits at an interrupt.
            Exception: the error that the run failed with.
        """
        while not self._events:
            if self._ended:
                raise StopAsyncIteration
            part: Any = await anext(self._stream, None)
            self._ended = part is None
            self._add(self._spans.end() if part is None else self._spans.of(part))
        return self._events.popleft()

    async def aclose(self) -> None:
        """End the run, if it is active, and wait until it has stored what it did."""
        self._ended = True
        await self._stream.aclose()

    def _add(self, events: Iterable[StreamEvent]) -> None:
        self._events.extend(filter(self._takes, events))
