"""Broadcast: a run's stream chunks on their way to one reader, in order, with a bound.

Receives   chunks from the supervisor (`publish` waits while the buffer is full), and live ones
           from nodes (`offer`, from any thread; a sync node waits, an async node waits when
           its call ends)
Sends      the chunks in order, then the end
Bounds     `buffer_max` chunks; an async node can exceed it until its call ends
Ends       when closed by the run, or by the reader, after which chunks are dropped
"""

from contextlib import suppress
from typing import Any

import anyio
import anyio.from_thread
import msgspec

from actorgraph.runtime.mailbox import Gate, Mailbox, running_loop

BUFFER_MAX = 256

Chunk = tuple[str, Any]


class BroadcastStatistics(msgspec.Struct, frozen=True):
    """What a broadcast has done: chunks taken, chunks waiting now, most that ever waited."""

    chunks: int
    waiting: int
    waiting_max: int


class Broadcast:
    """One run's chunks for one reader."""

    def __init__(self, modes: frozenset[str], buffer_max: int = BUFFER_MAX) -> None:
        self.modes = modes
        self._buffer_max = buffer_max
        self._chunks: Mailbox[Chunk | None] = Mailbox()
        self._room: list[Gate] = []
        self._open = True
        self._count = self._most = 0

    async def publish(self, chunks: tuple[Chunk, ...]) -> None:
        """Send chunks; waits while the reader is a whole buffer behind."""
        for chunk in chunks:
            await self.wait_room()
            self._put(chunk)

    def try_publish(self, chunks: tuple[Chunk, ...]) -> bool:
        """Send chunks if there is room for all of them; False, and nothing sent, if not."""
        if self._open and len(self._chunks) + len(chunks) > self._buffer_max:
            return False
        for chunk in chunks:
            self._put(chunk)
        return True

    def offer(self, chunk: Chunk) -> None:
        """Send a live chunk from a node. In a worker thread it waits for room."""
        self._put(chunk)
        if len(self._chunks) >= self._buffer_max and self._open and not running_loop():
            with suppress(anyio.NoEventLoopError):  # a thread of the node's own can't wait
                anyio.from_thread.run(self.wait_room)

    async def wait_room(self) -> None:
        """Wait until the buffer has room or nobody reads any more."""
        while self._open and len(self._chunks) >= self._buffer_max:
            gate = Gate()
            self._room.append(gate)
            if len(self._chunks) < self._buffer_max or not self._open:
                return
            await gate.wait()

    async def get(self) -> Chunk | None:
        """The next chunk; None at the end."""
        chunk = await self._chunks.get()
        if self._room and len(self._chunks) < self._buffer_max:
            self._make_room()
        return chunk

    def end(self) -> None:
        """The run has left: the reader gets what is buffered, then the end."""
        self._chunks.put(None)

    def leave(self) -> None:
        """The reader has left: drop what comes, and let everybody go on who waits."""
        self._open = False
        self._make_room()

    def statistics(self) -> BroadcastStatistics:
        """What it has done so far."""
        return BroadcastStatistics(self._count, len(self._chunks), self._most)

    def _put(self, chunk: Chunk) -> None:
        if self._open:
            self._chunks.put(chunk)
            self._count += 1
            self._most = max(self._most, len(self._chunks))

    def _make_room(self) -> None:
        waiting, self._room = self._room, []
        for gate in waiting:
            gate.open()
