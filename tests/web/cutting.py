"""A proxy that breaks connections in the middle of what a server sends, at random bytes."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

HOST = "127.0.0.1"


class Cutter:
    """Forwards to one of some ports at random, and cuts each connection after random bytes.

    Half of the cuts are a reset, after which the client loses what it has not yet read.

    Args:
        ports: of the servers; may be changed.
        bytes_mean: bytes of the server's that a connection lets through, on the average.

    Attributes:
        cuts: how many connections were cut: "all", and in the middle of what: "event",
            "character".
    """

    def __init__(self, chance: random.Random, ports: list[int], bytes_mean: int) -> None:
        self._chance = chance
        self.ports = ports
        self._bytes_mean = bytes_mean
        self.cuts: Counter[str] = Counter()
        self._open: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """Take connections; yields the address."""
        server = await asyncio.start_server(self._forward, HOST, 0)
        try:
            yield f"http://{HOST}:{server.sockets[0].getsockname()[1]}"
        finally:
            server.close()
            for task in self._open:
                task.cancel()
            await asyncio.gather(*self._open, return_exceptions=True)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            theirs = await asyncio.open_connection(HOST, self._chance.choice(self.ports))
        except OSError:  # the server is away
            writer.close()
            self._open.discard(task)
            return
        asked = asyncio.create_task(_pump(reader, theirs[1]))
        try:
            await self._answer(theirs[0], writer)
        finally:
            asked.cancel()
            theirs[1].close()
            writer.close()
            self._open.discard(task)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        left = 1 + int(self._chance.expovariate(1 / self._bytes_mean))
        with suppress(OSError, asyncio.CancelledError):  # cancelled by `serving` alone
            while data := await reader.read(65_536):
                writer.write(data[:left])
                await writer.drain()
                if left < len(data):
                    self._count(data, left)
                    if self._chance.random() < 0.5:
                        writer.transport.abort()
                    return
                left -= len(data)

    def _count(self, data: bytes, place: int) -> None:
        in_event = not data[:place].endswith(b"\n\n")
        in_character = data[place] & 0xC0 == 0x80
        self.cuts += Counter(all=1, event=in_event, character=in_character)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError, asyncio.CancelledError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
