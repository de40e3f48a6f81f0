"""The sync API of a compiled graph: async methods without the `a`, for code without a loop."""

import sys
from collections.abc import Iterator, Mapping
from typing import Any

from actorgraph.api.blocking import block_on, refuse_in_loop
from actorgraph.api.compiled import Config
from actorgraph.api.state_facade import BlockingStateMethods
from actorgraph.api.stream import ChunkStream
from actorgraph.loops import in_event_loop
from actorgraph.runtime import portal


class BlockingMethods(BlockingStateMethods):
    """`invoke` and `stream`; each runs its async version in the portal's loop."""

    def invoke(self, input: Any, config: Config | None = None, **options: Any) -> Any:
        """Blocking version of `ainvoke`, with the same options. Refused inside an event loop."""
        return block_on("ainvoke", lambda: self.ainvoke(input, config, **options))

    def stream(self, input: Any, config: Config | None = None, **options: Any) -> Iterator[Any]:
        """Blocking version of `astream`, with the same options. Refused inside an event loop."""
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
            # The generator may be freed by the garbage collector where nothing may block: inside
            # a loop, or while the interpreter shuts down.
            if in_event_loop() or sys.is_finalizing():
                stream.abandon()
            else:
                portal.call(stream.aclose)


async def _next(stream: ChunkStream, end: object) -> Any:
    return await anext(stream, end)
