"""The run of an event stream as a program holds it, its subgraph runs, and what drives them.

`AsyncGraphRunStream` and `AsyncSubgraphRunStream` do the work; `GraphRunStream` and
`SubgraphRunStream` are their blocking versions. `Pump` takes a chunk of the run at a time, when
a reader asks for an item.

Pump:
Receives   `advance`, from any number of readers; one of them takes the chunk, the others wait
Sends      one event per chunk to the mux
Ends       with the run, or with `abort`. A reader that is cancelled does not end the run
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType, TracebackType
from typing import Any, Self, cast

import anyio

from actorgraph.api.blocking import refuse_in_loop
from actorgraph.api.streams.cursors import END, Cursor
from actorgraph.api.streams.events import (
    ProtocolEvent,
    StreamChannel,
    StreamMux,
    TransformerFactory,
    event_of,
)
from actorgraph.api.streams.message_streams import AsyncMessageStream, WholeMessages
from actorgraph.api.streams.projections import LifecyclePayload, SubgraphStatus, SubgraphTracker
from actorgraph.api.streams.stream import ChunkStream
from actorgraph.errors import InvalidConfigError, NestedRunError, did_you_mean
from actorgraph.loops import in_event_loop, shielded
from actorgraph.runtime import portal
from actorgraph.runtime.stepper import in_portal
from actorgraph.values.commands import Interrupt
from actorgraph.values.stream_items import Namespace


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
        self._messages = WholeMessages() if self.mux.changes_messages else None
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
        """End the run, and wait until its finished work is stored."""
        if not self._ended:
            self._ended = True
            await shielded(self._close)

    async def _close(self) -> None:
        assert self._stream is not None
        await self._stream.aclose()
        await self.mux.aclose()

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
                for shown in [part] if self._messages is None else self._messages.take(part):
                    await self._show(_event(shown))
            elif not self._ended:
                for shown in [] if self._messages is None else self._messages.rest():
                    await self._show(_event(shown))
                self._ended = True
                await shielded(self.mux.aclose)
        except Exception as error:  # noqa: BLE001 - the readers raise it
            self._ended, self.error = True, error
            await shielded(partial(self._fail, error))

    async def _show(self, event: ProtocolEvent) -> None:
        """Pass an event to every transformer, even if the reader is cancelled meanwhile."""
        if self.mux.waits:
            await shielded(partial(self.mux.apush, event))
        else:  # nothing suspends, so no cancellation can arrive; saves a task per event
            await self.mux.apush(event)

    async def _fail(self, error: Exception) -> None:
        assert self._stream is not None
        await self._stream.aclose()
        await self.mux.afail(error)

    def _observe(self, part: dict[str, Any]) -> None:
        if part["type"] == "values" and part["ns"] == self.mux.scope:
            self.latest = part["data"]
            self.interrupts.extend(part["interrupts"])


def _event(part: dict[str, Any]) -> Any:
    return event_of(part["type"], part["ns"], part["data"], part.get("interrupts"))


class RunView:
    """The projections of one run. Each may have one reader.

    Those of built-in transformers are attributes: `values`, `messages`, `lifecycle`,
    `subgraphs`, and, if their transformer was given, `updates`, `custom`, `checkpoints`,
    `debug`, `tasks`.

    Attributes:
        extensions: all projections, by name.
    """

    values: StreamChannel[Any]
    messages: StreamChannel[AsyncMessageStream]
    lifecycle: StreamChannel[LifecyclePayload]
    subgraphs: StreamChannel[Any]
    updates: StreamChannel[dict[str, Any]]
    custom: StreamChannel[Any]
    checkpoints: StreamChannel[dict[str, Any]]
    debug: StreamChannel[dict[str, Any]]
    tasks: StreamChannel[dict[str, Any]]

    def __init__(self, mux: StreamMux) -> None:
        self.mux = mux
        self.extensions: Mapping[str, Any] = MappingProxyType(mux.extensions)
        for name in mux.native:
            setattr(self, name, mux.extensions[name])

    @property
    def _mux(self) -> StreamMux:
        return self.mux  # the name by which plug-ins written for LangGraph know it

    def __getattr__(self, name: str) -> StreamChannel[Any]:
        mux = self.__dict__.get("mux")
        known = sorted(mux.native) if mux is not None else []
        raise AttributeError(
            f"{type(self).__name__!r} has no projection {name!r}; it has {', '.join(known)}"
        )


class AsyncGraphRunStream(RunView):
    """A run that advances when its projections are read, at most a buffer of chunks ahead.

    Use it as `async with`, which ends the run when the block is left early. Several tasks may
    read several projections concurrently.
    """

    def __init__(self, pump: Pump) -> None:
        self.pump = pump
        super().__init__(pump.mux)

    def __await__(self) -> Generator[Any, Any, Self]:
        """Return the run: LangGraph's programs write `async with await graph.astream_events()`."""
        yield from ()
        return self

    async def output(self) -> Any:
        """Run to the end and return the last state; None if it has none.

        Raises:
            Exception: the error that the run failed with.
        """
        await self.pump.drain()
        return self.pump.latest

    async def interrupted(self) -> bool:
        """Run to the end; return whether it stopped at an interrupt or a breakpoint."""
        await self.pump.drain()
        return self.pump.interrupted

    async def interrupts(self) -> list[Interrupt]:
        """Run to the end and return the pending interrupts."""
        await self.pump.drain()
        return self.pump.interrupts

    async def abort(self) -> None:
        """End the run, and wait until its finished work is stored."""
        await self.pump.abort()

    def interleave(self, *names: str) -> Cursor[tuple[str, Any]]:
        """Iterate over several projections: `(name, item)` in the order of the items.

        Raises:
            InvalidConfigError: a name is unknown, or its channel has a reader.
        """
        return Cursor(_Interleaved(self.mux, names))

    def __aiter__(self) -> Any:
        """Iterate over the run's log: every event that no transformer kept back."""
        return aiter(self.mux.log)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.abort()

    def __del__(self) -> None:
        pump = self.__dict__.get("pump")
        if pump is not None:
            pump.abandon()


class AsyncSubgraphRunStream(RunView):
    """A subgraph run.

    A transformer may make one itself, of `mux.below(namespace)`: it passes the events on with
    `mux.apush`, and sets `status` and `error` at the end.

    Args:
        mux: of the subgraph run.
        path: its namespace; default that of the mux.
        graph_name: the node that runs it.
        trigger_call_id: the id of the task that it runs in.

    Attributes:
        path: its namespace.
        graph_name: the node that runs it.
        trigger_call_id: the id of the task that it runs in.
        status: "started" until it has ended.
        error: the text of what its task raised.
    """

    def __init__(
        self,
        mux: StreamMux,
        *,
        path: Namespace | None = None,
        graph_name: str | None = None,
        trigger_call_id: str | None = None,
    ) -> None:
        super().__init__(mux)
        self.path = mux.scope if path is None else path
        self.graph_name = graph_name
        self.trigger_call_id = trigger_call_id
        self.status: SubgraphStatus = "started"
        self.error: str | None = None
        self._latest: Any = None
        self._interrupts: list[Interrupt] = []
        self._begun = False
        self._first: ProtocolEvent | None = None
        self._seen_terminal = False  # for plug-ins that make the object: they set it

    @property
    def done(self) -> bool:
        """Whether it has ended."""
        return self.status != "started"

    async def output(self) -> Any:
        """Advance the run until the subgraph has ended; return its last state.

        Raises:
            NestedRunError: it has failed.
        """
        await self._wait()
        if self.status == "failed":
            raise self._failure()
        return self._latest

    async def interrupted(self) -> bool:
        """Advance the run until the subgraph has ended; return whether it has interrupts."""
        await self._wait()
        return self.status == "interrupted"

    async def interrupts(self) -> list[Interrupt]:
        """Advance the run until the subgraph has ended; return its pending interrupts."""
        await self._wait()
        return list(self._interrupts)

    def interleave(self, *names: str) -> Cursor[tuple[str, Any]]:
        """See `AsyncGraphRunStream.interleave`."""
        return Cursor(_Interleaved(self.mux, names))

    def __aiter__(self) -> Any:
        """Iterate over the events of the subgraph and of its own subgraphs."""
        return aiter(self.mux.log)

    def observe(self, event: ProtocolEvent) -> None:
        """Take its last state and its interrupts from an event."""
        params = event["params"]
        if event["method"] == "values" and tuple(params["namespace"]) == self.path:
            self._latest = params["data"]
            self._interrupts.extend(params.get("interrupts", ()))

    _observe_event = observe

    async def receive(self, event: ProtocolEvent) -> None:
        """Handle an event of the subgraph, or of one of its own subgraphs."""
        self.observe(event)
        if not self._begun:
            # Held back until the next event: the program has just been given this object and
            # must be able to subscribe before the first item is pushed.
            self._begun, self._first = True, event
            return
        await self._push_first()
        await self.mux.apush(event)

    async def _push_first(self) -> None:
        first, self._first = self._first, None
        if first is not None:
            await self.mux.apush(first)

    async def end(self, status: SubgraphStatus, error: str | None) -> None:
        """Handle the end of the task that it runs in."""
        await self._push_first()
        self.status, self.error = status, error
        if status == "failed":
            await self.mux.afail(self._failure())
        else:
            await self.mux.aclose()

    def _failure(self) -> NestedRunError:
        return NestedRunError(
            f"the subgraph of node {self.graph_name!r} failed: {self.error}",
            do="await run.output() of the top-level run raises the original error",
        )

    async def _wait(self) -> None:
        while not self.done and await self.mux.advance():
            pass


class _Interleaved:
    """Merges several channels of a mux by the stamps of their items."""

    def __init__(self, mux: StreamMux, names: tuple[str, ...]) -> None:
        self._mux = mux
        self._channels: dict[str, StreamChannel[Any]] = {}
        for name in names:
            channel = mux.extensions.get(name)
            if not isinstance(channel, StreamChannel):
                self._release()
                known = [n for n, c in mux.extensions.items() if isinstance(c, StreamChannel)]
                raise InvalidConfigError(
                    f"interleave(): unknown channel {name!r}",
                    do=did_you_mean(name, known),
                )
            channel.subscribe()
            self._channels[name] = cast("StreamChannel[Any]", channel)

    async def pull(self) -> Any:
        while True:
            found = {n: c.waiting for n, c in self._channels.items() if c.waiting is not None}
            if found:
                name = min(found, key=found.__getitem__)
                return name, self._channels[name].take()
            if all(channel.is_over for channel in self._channels.values()):
                self._release()
                return END
            await self._mux.advance()  # closes the channels at the run's end

    def _release(self) -> None:
        for channel in self._channels.values():
            channel.release()
        self._channels.clear()

    def discard(self) -> None:
        """Leave before the end."""
        for channel in self._channels.values():
            channel.discard()


class _BlockingView:
    """Blocking version of a `RunView`: its projections are read with a plain `for`."""

    def __init__(self, view: Any) -> None:
        self._view = view

    def __getattr__(self, name: str) -> Any:
        if name == "_view":
            raise AttributeError(name)
        return getattr(self._view, name)

    @property
    def output(self) -> Any:
        """The last state, at the end of the run; blocks."""
        refuse_in_loop("output", "await run.output()")
        return in_portal(self._view.output)

    @property
    def interrupted(self) -> bool:
        """Whether the run stopped at an interrupt or a breakpoint; blocks until its end."""
        refuse_in_loop("interrupted", "await run.interrupted()")
        return in_portal(self._view.interrupted)

    @property
    def interrupts(self) -> list[Interrupt]:
        """The pending interrupts, at the end of the run; blocks."""
        refuse_in_loop("interrupts", "await run.interrupts()")
        return in_portal(self._view.interrupts)

    def __iter__(self) -> Iterator[ProtocolEvent]:
        """Iterate over the run's log."""
        return iter(self._view.mux.log)


class GraphRunStream(_BlockingView):
    """Blocking version of `AsyncGraphRunStream`; use it as `with`."""

    _view: AsyncGraphRunStream

    def abort(self) -> None:
        """End the run, and wait until its finished work is stored."""
        if in_event_loop():  # freed by the garbage collector inside a loop: must not block
            self._view.pump.abandon()
        else:
            portal.call(self._view.abort)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.abort()


class SubgraphRunStream(_BlockingView):
    """Blocking version of `AsyncSubgraphRunStream`, with the same arguments."""

    _view: AsyncSubgraphRunStream

    def __init__(
        self,
        mux: StreamMux,
        *,
        path: Namespace | None = None,
        graph_name: str | None = None,
        trigger_call_id: str | None = None,
    ) -> None:
        super().__init__(
            AsyncSubgraphRunStream(
                mux, path=path, graph_name=graph_name, trigger_call_id=trigger_call_id
            )
        )

    @property
    def view(self) -> AsyncSubgraphRunStream:
        """The object whose blocking version this is."""
        return self._view

    @property
    def status(self) -> SubgraphStatus:
        """See `AsyncSubgraphRunStream`."""
        return self._view.status

    @status.setter
    def status(self, status: SubgraphStatus) -> None:
        self._view.status = status

    @property
    def error(self) -> str | None:
        """See `AsyncSubgraphRunStream`."""
        return self._view.error

    @error.setter
    def error(self, error: str | None) -> None:
        self._view.error = error


class SubgraphTransformer(SubgraphTracker):
    """`run.subgraphs`: the direct subgraph runs; a deeper one is in its parent's `subgraphs`."""

    def __init__(self, scope: Namespace = ()) -> None:
        super().__init__(scope)
        self.channel: StreamChannel[Any] = StreamChannel()
        self._handles: dict[Namespace, AsyncSubgraphRunStream] = {}

    def init(self) -> dict[str, Any]:
        """Return the channel `subgraphs`."""
        return {"subgraphs": self.channel}

    def tracks(self, namespace: Namespace) -> bool:
        """Track the next level only."""
        return self.below(namespace) == 1

    async def aprocess(self, event: ProtocolEvent) -> bool:
        """Track tasks, then pass the event to the subgraph run that it belongs to."""
        passes = await super().aprocess(event)
        place = tuple(event["params"]["namespace"])
        for namespace, handle in self._handles.items():
            if place[: len(namespace)] == namespace and not handle.done:
                await handle.receive(event)
        return passes

    async def started(self, namespace: Namespace, name: str, task: str) -> None:
        """Push an object for the subgraph run to the reader."""
        assert self._mux is not None
        mux = self._mux.below(namespace)
        kind = SubgraphRunStream if mux.blocking else AsyncSubgraphRunStream
        handle = kind(mux, graph_name=name, trigger_call_id=task or None)
        self._handles[namespace] = handle.view if isinstance(handle, SubgraphRunStream) else handle
        self.channel.push(handle)

    async def ended(self, namespace: Namespace, status: SubgraphStatus, error: str | None) -> None:
        """Close the projections of the subgraph run."""
        handle = self._handles.pop(namespace, None)
        if handle is not None:
            await handle.end(status, error)
