"""What tasks send to readers while they run: custom chunks, messages, tool events.

A live chunk goes straight from the node to the broadcast; it waits for no save. Where nobody
reads a live mode there is no `Live`, and a writer does nothing.
"""

from collections.abc import Callable
from typing import Any

import anyio
import anyio.lowlevel

from actorgraph.runtime.broadcast import Broadcast
from actorgraph.values.streams import Namespace

LIVE_MODES = frozenset({"custom", "messages", "tools"})


class Live:
    """The live chunks of one run for one reader.

    Args:
        modes: the live modes that it reads of this run.
        namespace: the run's.
        step: the superstep that runs now.

    Attributes:
        seen: ids of the messages that the reader has, or is taken to know; of all levels.
    """

    def __init__(
        self,
        broadcast: Broadcast,
        modes: frozenset[str],
        namespace: Namespace,
        step: Callable[[], int],
    ) -> None:
        self.modes = modes
        self.step = step
        self.seen = broadcast.seen
        self._broadcast = broadcast
        self._namespace = namespace

    def offer(self, mode: str, chunk: Any) -> None:
        """Send a chunk, if its mode is read; see `Broadcast.offer`."""
        if mode in self.modes:
            self._broadcast.offer((self._namespace, mode, chunk))

    async def send(self, mode: str, chunk: Any) -> None:
        """Send a chunk, if its mode is read, once there is room for it."""
        if mode in self.modes:
            await self._broadcast.send((self._namespace, mode, chunk))

    @property
    def lags(self) -> bool:
        """Whether the reader is a whole buffer behind."""
        return self._broadcast.is_full

    async def pace(self) -> None:
        """Wait until the reader has caught up."""
        await self._broadcast.wait_room()

    async def pace_shielded(self) -> None:
        """`pace` where a cancellation must wait: between an `await` and its result."""
        with anyio.CancelScope(shield=True):
            await self._broadcast.wait_room()


def live_of(
    broadcast: Broadcast | None, namespace: Namespace, step: Callable[[], int]
) -> Live | None:
    """The live chunks of a run; None where nobody reads any."""
    if broadcast is None:
        return None
    modes = broadcast.modes_at(namespace) & LIVE_MODES
    return Live(broadcast, modes, namespace, step) if modes else None


class Writer:
    """Sends custom chunks to the readers of `stream_mode="custom"`; without one it does nothing.

    `writer(chunk)` never waits in async code: a node that writes faster than its reader reads is
    held at its next `await`. `await writer.asend(chunk)` waits for room first; tasks that a node
    starts use it, because they aren't held.
    """

    __slots__ = ("_live",)

    def __init__(self, live: Live | None) -> None:
        self._live = live

    def offer(self, mode: str, chunk: Any) -> None:
        """Send a chunk of another live mode, if somebody reads it."""
        if self._live is not None:
            self._live.offer(mode, chunk)

    def __call__(self, chunk: Any) -> None:
        """Send a chunk; in a sync node it waits while the reader is a whole buffer behind."""
        if self._live is not None:
            self._live.offer("custom", chunk)

    async def asend(self, chunk: Any) -> None:
        """Send a chunk once the reader has room for it."""
        await anyio.lowlevel.checkpoint()
        if self._live is not None:
            await self._live.send("custom", chunk)
