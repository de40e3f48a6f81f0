"""The run of an event stream as a program holds it, its subgraph runs, and what drives them.

`AsyncGraphRunStream` and `AsyncSubgraphRunStream` do the work; `GraphRunStream` and
`SubgraphRunStream` are their blocking versions. `Pump` takes a chunk of the run at a time, when
a reader asks for an item.

Pump:
Receives   `advance`, from any number of readers; one of them takes the chunk, the others wait
Sends      one event per chunk to the mux
Ends       with the run, or with `abort`. A reader that is cancelled does not end the run
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import anyio

from actorgraph.api.events.mux import StreamMux, event_of
from actorgraph.api.events.protocol import ProtocolEvent, TransformerFactory
from actorgraph.api.stream import ChunkStream
from actorgraph.loops import shielded
from actorgraph.values.commands import Interrupt
from actorgraph.values.streams import Namespace


class Pump:
    """Drives one run.

    Attributes:
        mux: passes the events to the transformers.
        latest: the newest state of the run itself, not of subgraphs.
        interrupts: its pending interrupts.
        error: what it failed with.
    """

    def __init__(
        self, factories: Sequence[TransformerFactory], *, scope: Namespace, blocking: bool
    ) -> None:
        self.mux = StreamMux(factories, scope=scope, advance=self.advance, blocking=blocking)
        self.latest: Any = None
        self.interrupts: list[Interrupt] = []
        self.error: BaseException | None = None
        self._stream: ChunkStream | None = None
        self._ended = False
        self._step: anyio.Event | None = None

    def attach(self, stream: ChunkStream) -> None:
        """Set the source of chunks: a stream of v2 parts of all levels."""
        self._stream = stream

    @property
    def interrupted(self) -> bool:
        """Whether the run stopped at an interrupt or a breakpoint."""
        return bool(self.interrupts) or (self._stream is not None and self._stream.waits)

    async def advance(self) -> bool:
        """Let the run advance by one event; return False once it has ended."""
        if self._ended:
            return False
        # One reader takes the next chunk; those that come meanwhile wait for it. If that reader is
        # cancelled, the others are woken too and one of them takes over.
        if self._step is not None:
            await self._step.wait()
            return not self._ended
        step = self._step = anyio.Event()
        try:
            await self._take()
        finally:
            self._step = None
            step.set()
        return not self._ended

    async def drain(self) -> None:
        """Run to the end.

        Raises:
            BaseException: the error that the run failed with.
        """
        while await self.advance():
            pass
        if self.error is not None:
            raise self.error

    async def abort(self) -> None:
        """End the run, and wait until what it did is stored."""
        if not self._ended:
            self._ended = True
            await shielded(self._close)

    async def _close(self) -> None:
        assert self._stream is not None
        await self._stream.aclose()
        await self.mux.close()

    def abandon(self) -> None:
        """End the run without waiting for it."""
        if self._stream is not None and not self._ended:
            self._stream.abandon()

    async def _take(self) -> None:
        assert self._stream is not None
        try:
            part = await self._stream.pull()
            if part is not None:
                self._observe(part)
                await self._show(_event(part))
            elif not self._ended:
                self._ended = True
                await shielded(self.mux.close)
        except Exception as error:  # noqa: BLE001 - the readers raise it
            self._ended, self.error = True, error
            await shielded(partial(self._fail, error))

    async def _show(self, event: ProtocolEvent) -> None:
        """Pass an event to every transformer, even if the reader is cancelled meanwhile."""
        if self.mux.waits:
            await shielded(partial(self.mux.push, event))
        else:  # nothing suspends, so no cancellation can arrive; saves a task per event
            await self.mux.push(event)

    async def _fail(self, error: Exception) -> None:
        assert self._stream is not None
        await self._stream.aclose()
        await self.mux.fail(error)

    def _observe(self, part: dict[str, Any]) -> None:
        if part["type"] == "values" and part["ns"] == self.mux.scope:
            self.latest = part["data"]
            self.interrupts.extend(part["interrupts"])


def _event(part: dict[str, Any]) -> Any:
    return event_of(part["type"], part["ns"], part["data"], part.get("interrupts"))
