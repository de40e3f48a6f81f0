"""The blocking facade: the async methods' names without the `a`, for code without an event loop."""

import sys
from collections.abc import Iterator, Mapping
from typing import Any

from actorgraph.api.blocking import block_on, refuse_in_loop
from actorgraph.api.compiled import Config
from actorgraph.api.state_facade import BlockingStateMethods
from actorgraph.api.stream import EventStream
from actorgraph.loops import in_event_loop
from actorgraph.runtime import portal


class BlockingMethods(BlockingStateMethods):
    """Each method runs its async twin in the background loop; refused inside a running loop."""

    def invoke(self, input: Any, config: Config | None = None, **options: Any) -> Any:
        """`ainvoke`, blocking. Refused inside a running event loop; takes the same options."""
        return block_on("ainvoke", lambda: self.ainvoke(input, config, **options))

    def stream(self, input: Any, config: Config | None = None, **options: Any) -> Iterator[Any]:
        """`astream`, blocking. Refused inside a running event loop; takes the same options."""
        refuse_in_loop("astream")
        return self._stream(input, config, options)

    def _stream(
        self, input: Any, config: Config | None, options: Mapping[str, Any]
    ) -> Iterator[Any]:
        stream = self.astream(input, config, **options)
        end = object()
        try:
            while (chunk := portal.call(_next, stream, end)) is not end:
                yield chunk
        finally:
            # Collected as garbage where nothing may wait: inside of a loop, or at the very end.
            if in_event_loop() or sys.is_finalizing():
                stream.abandon()
            else:
                portal.call(stream.aclose)


async def _next(stream: EventStream, end: object) -> Any:
    return await anext(stream, end)
