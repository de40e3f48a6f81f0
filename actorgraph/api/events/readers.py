"""The run of an event stream, and its subgraph runs, as a program holds them."""

from collections.abc import Generator, Iterator, Mapping
from types import MappingProxyType, TracebackType
from typing import Any, Self, cast

from actorgraph.api.blocking import refuse_in_loop
from actorgraph.api.events.channel import END, Cursor, StreamChannel
from actorgraph.api.events.models import AsyncMessageStream
from actorgraph.api.events.mux import StreamMux
from actorgraph.api.events.nested import LifecyclePayload, SubgraphStatus
from actorgraph.api.events.protocol import ProtocolEvent
from actorgraph.api.events.pump import Pump
from actorgraph.errors import InvalidConfigError, NestedRunError, did_you_mean
from actorgraph.loops import in_event_loop
from actorgraph.runtime import portal
from actorgraph.values.commands import Interrupt


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
        """Run to the end and return the last state; None if there was none.

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
        """End the run, and wait until what it did is stored."""
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

    Attributes:
        path: its namespace.
        graph_name: the node that runs it.
        trigger_call_id: the id of the task that it runs in.
        status: "started" until it has ended.
        error: the text of what its task raised.
    """

    def __init__(
        self, mux: StreamMux, *, graph_name: str | None, trigger_call_id: str | None
    ) -> None:
        super().__init__(mux)
        self.path = mux.scope
        self.graph_name = graph_name
        self.trigger_call_id = trigger_call_id
        self.status: SubgraphStatus = "started"
        self.error: str | None = None
        self._latest: Any = None
        self._interrupts: list[Interrupt] = []
        self._begun = False
        self._first: ProtocolEvent | None = None

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

    async def receive(self, event: ProtocolEvent) -> None:
        """Handle an event of the subgraph, or of one of its own subgraphs."""
        params = event["params"]
        if event["method"] == "values" and tuple(params["namespace"]) == self.path:
            self._latest = params["data"]
            self._interrupts.extend(params.get("interrupts", ()))
        if not self._begun:
            # Held back until the next event: the program has just been given this object and
            # must be able to subscribe before the first item is pushed.
            self._begun, self._first = True, event
            return
        await self._push_first()
        await self.mux.push(event)

    async def _push_first(self) -> None:
        first, self._first = self._first, None
        if first is not None:
            await self.mux.push(first)

    async def end(self, status: SubgraphStatus, error: str | None) -> None:
        """Handle the end of the task that it runs in."""
        await self._push_first()
        self.status, self.error = status, error
        if status == "failed":
            await self.mux.fail(self._failure())
        else:
            await self.mux.close()

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
        refuse_in_loop("await run.output()")
        return portal.call(self._view.output)

    @property
    def interrupted(self) -> bool:
        """Whether the run stopped at an interrupt or a breakpoint; blocks until its end."""
        refuse_in_loop("await run.interrupted()")
        return portal.call(self._view.interrupted)

    @property
    def interrupts(self) -> list[Interrupt]:
        """The pending interrupts, at the end of the run; blocks."""
        refuse_in_loop("await run.interrupts()")
        return portal.call(self._view.interrupts)

    def __iter__(self) -> Iterator[ProtocolEvent]:
        """Iterate over the run's log."""
        return iter(self._view.mux.log)


class GraphRunStream(_BlockingView):
    """Blocking version of `AsyncGraphRunStream`; use it as `with`."""

    _view: AsyncGraphRunStream

    def abort(self) -> None:
        """End the run, and wait until what it did is stored."""
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
    """Blocking version of `AsyncSubgraphRunStream`."""

    _view: AsyncSubgraphRunStream
