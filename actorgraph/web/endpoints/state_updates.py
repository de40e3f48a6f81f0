"""News of states that clients have updated, for streams of threads in the same server."""

from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing, contextmanager
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

WAITING_MAX = 256
"""Updates that may wait for a slow stream; further ones are left out."""


class StateUpdates:
    """The updates of threads' states through one server, by thread."""

    def __init__(self) -> None:
        self._readers: dict[str, set[MemoryObjectSendStream[Any]]] = {}

    def is_read(self, thread_id: str) -> bool:
        """Whether a stream follows the thread."""
        return thread_id in self._readers

    def publish(self, thread_id: str, state: Any) -> None:
        """Send a thread's new state to the streams that follow it."""
        for reader in self._readers.get(thread_id, ()):
            try:
                reader.send_nowait(state)
            except (anyio.WouldBlock, anyio.BrokenResourceError):  # it is slow, or ends just now
                continue

    @contextmanager
    def follow(self, thread_id: str) -> Generator[MemoryObjectReceiveStream[Any]]:
        """Receive a thread's new states from now on."""
        sender, receiver = anyio.create_memory_object_stream[Any](WAITING_MAX)
        readers = self._readers.setdefault(thread_id, set())
        readers.add(sender)
        try:
            with sender, receiver:
                yield receiver
        finally:
            readers.discard(sender)
            if not readers and self._readers.get(thread_id) is readers:
                del self._readers[thread_id]


Part = bytes | Exception | None
"""A part of a body; the error that its source failed with; None when the source has ended."""


async def pour(
    parts: AsyncGenerator[bytes], into: MemoryObjectSendStream[Part], *, ends: bool
) -> None:
    """Send parts into a stream that several sources share.

    Args:
        ends: whether the body ends with this source.
    """
    try:
        async with aclosing(parts):
            async for part in parts:
                await into.send(part)
        if ends:
            await into.send(None)
    except Exception as error:  # noqa: BLE001 - the reader of the stream raises it
        await into.send(error)


async def poured(out_of: MemoryObjectReceiveStream[Part]) -> AsyncGenerator[bytes]:
    """Yield what several sources send, until one of them ends the body.

    Raises:
        Exception: the error of a source.
    """
    async for part in out_of:
        if part is None:
            return
        if isinstance(part, Exception):
            raise part
        yield part
