"""Event streams of version 3: events, transformers, channels, and the mux that connects them.

A run's chunks become events. `StreamMux` passes each event through the transformers, which make
projections of them, `StreamChannel` objects. The reader of a channel drives the run: the next
chunk is taken when a reader finds no item.

StreamMux:
Receives   events, one at a time, from whichever reader advances the run
Sends      the events that transformers pass on to the run's log; items of named channels too
Order      transformers with `before_builtins`, the built-in ones, the others
Ends       with the run: scheduled coroutines first, then the transformers, then every channel
"""

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from typing import (
    Any,
    ClassVar,
    Generic,
    Literal,
    NotRequired,
    TypedDict,
    TypeVar,
)

from actorgraph.api.blocking import refuse_in_loop
from actorgraph.api.streams.cursors import END, Cursor, tee
from actorgraph.api.streams.scheduled import Scheduled
from actorgraph.errors import InvalidConfigError
from actorgraph.values.stream_items import Namespace


class EventParams(TypedDict):
    """An event's content.

    Attributes:
        namespace: of the run that it comes from.
        timestamp: milliseconds since 1970, for display: it may go backwards.
        data: the chunk.
        interrupts: of `values` events, the pending interrupts.
    """

    namespace: list[str]
    timestamp: int
    data: Any
    interrupts: NotRequired[tuple[Any, ...]]


class ProtocolEvent(TypedDict):
    """One event.

    Attributes:
        type: always "event".
        method: a stream mode, or a channel's name.
        params: the content.
        seq: its number in the run's log, from 0; rises by one per event.
    """

    type: Literal["event"]
    method: str
    params: EventParams
    seq: NotRequired[int]


class StreamTransformer(ABC):
    """Base of plug-ins that see every event of a run and make projections of them.

    Pass subclasses, or functions of a scope, to `compile(transformers=)` or to
    `astream_events(version="v3", transformers=)`. One instance is made for the run and one for
    every subgraph run.

    Args:
        scope: the namespace of that run.

    Attributes:
        required_stream_modes: the modes that the run must emit for it.
        before_builtins: whether it sees an event before the built-in transformers do, e.g. to
            change it. If it requires no mode, or "messages", then every reader of the run gets
            whole messages instead of pieces: the text that it looks for may be split over two.
        requires_async: ignored; kept for programs that set it.
        supports_sync: ignored; kept for programs that set it.
    """

    requires_async: ClassVar[bool] = False
    supports_sync: ClassVar[bool] = False
    required_stream_modes: ClassVar[tuple[str, ...]] = ()
    before_builtins: ClassVar[bool] = False
    _native: ClassVar[bool] = False
    """Whether its projections are attributes of the run, as the built-in ones are."""
    _never_waits: ClassVar[bool] = False
    """Whether its async methods are known never to suspend."""

    def __init__(self, scope: Namespace = ()) -> None:
        self.scope = scope
        self._mux: StreamMux | None = None

    @property
    def may_wait(self) -> bool:
        """Whether handling an event may suspend, so that a reader could be cancelled within."""
        own, plain = type(self), StreamTransformer
        return not self._never_waits and not (
            own.aprocess is plain.aprocess
            and own.afinalize is plain.afinalize
            and own.afail is plain.afail
        )

    @abstractmethod
    def init(self) -> dict[str, Any]:
        """Return its projections: name -> `StreamChannel`, or any other object.

        They are `run.extensions[name]`; those of a native transformer also `run.<name>`.
        """

    def registered(self, mux: "StreamMux") -> None:
        """Called once, when its projections are attached to a run."""
        self._mux = mux

    def process(self, event: ProtocolEvent) -> bool:
        """Handle an event; return False to keep it out of the run's log.

        Raises:
            NotImplementedError: neither this nor `aprocess` was overridden.
        """
        raise NotImplementedError(f"{type(self).__name__} must override process() or aprocess()")

    async def aprocess(self, event: ProtocolEvent) -> bool:
        """Async version of `process`; the next transformer gets the event afterwards."""
        return self.process(event)

    def finalize(self) -> None:
        """Called when the run has ended. Channels are closed automatically."""
        return

    async def afinalize(self) -> None:
        """Async version of `finalize`; scheduled coroutines have ended before."""
        self.finalize()

    def fail(self, err: BaseException) -> None:
        """Called when the run has failed. Channels are failed automatically."""
        return

    async def afail(self, err: BaseException) -> None:
        """Async version of `fail`; scheduled coroutines have been cancelled before."""
        self.fail(err)

    def schedule(
        self, coro: Coroutine[Any, Any, Any], *, on_error: Literal["log", "raise"] = "log"
    ) -> "Scheduled":
        """Run a coroutine concurrently with the events; the end of the run waits for it.

        Args:
            coro: the coroutine.
            on_error: "log" writes its error to the log, "raise" makes the run fail with it.
        Raises:
            InvalidConfigError: the transformer is not attached to a run.
        """
        if self._mux is None:
            coro.close()
            raise InvalidConfigError(
                f"{type(self).__name__}.schedule() was called before the run started",
                do="call it in process() or aprocess()",
            )
        return self._mux.schedule(coro, logs=on_error == "log")


TransformerFactory = Callable[[Namespace], StreamTransformer]
"""Makes a transformer for a scope; a transformer's class is one."""


T = TypeVar("T")


class StreamChannel(Generic[T]):
    """The items of one projection, for one reader.

    Items are kept only after a reader has subscribed. A reader that finds no item lets the run
    advance by one event. Use `async for` in a coroutine, a plain `for` in code without a loop.

    Args:
        name: if given, every item is also an event of the run's log: `custom:<name>`, or `<name>`
            from a native transformer.
        maxlen: the most unread items; beyond it the oldest is dropped. Default no bound.
    Raises:
        InvalidConfigError: `maxlen` is less than 1.
    """

    def __init__(self, name: str | None = None, *, maxlen: int | None = None) -> None:
        if maxlen is not None and maxlen < 1:
            raise InvalidConfigError(f"maxlen must be >= 1, got {maxlen}", do="use 1 item or more")
        self.name = name
        self._items: deque[tuple[int, T]] = deque(maxlen=maxlen)
        self._mux: StreamMux | None = None
        self._method: str | None = None
        self._closed = False
        self._error: BaseException | None = None
        self._subscribed = self._keeps = self._discarded = False

    def push(self, item: T) -> None:
        """Add an item for the reader, if there is one, and to the run's log, if it has a name.

        Raises:
            InvalidConfigError: the channel is closed.
        """
        if (self._subscribed or self._keeps) and not self._discarded:
            if self._closed:
                raise InvalidConfigError(
                    f"push() to the closed channel {self.name!r}",
                    do="push while the run is active: in process() or aprocess()",
                )
            self._items.append((0 if self._mux is None else self._mux.stamp(), item))
        if self._method is not None and self._mux is not None:
            self._mux.forward(self._method, item)

    def close(self) -> None:
        """End the channel: no further items follow."""
        self._closed = True

    def fail(self, err: BaseException) -> None:
        """End the channel with an error, which the reader gets after the last item."""
        if not self._closed:
            self._error = err
        self._closed = True

    def __aiter__(self) -> AsyncIterator[T]:
        """Subscribe; once only.

        Raises:
            InvalidConfigError: it has a reader already, or doesn't belong to a run.
        """
        self.subscribe()
        return Cursor(self)

    def __iter__(self) -> Iterator[T]:
        """Subscribe in code without an event loop; once only.

        Raises:
            RunningLoopError: called inside an event loop.
            InvalidConfigError: as for `async for`.
        """
        refuse_in_loop("a plain `for`", "async for item in channel")
        self.subscribe()
        return Cursor(self)

    def atee(self, n: int = 2) -> tuple[AsyncIterator[T], ...]:
        """Subscribe `n` readers, each of which gets every item."""
        self.subscribe()
        return tee(self, n)

    def tee(self, n: int = 2) -> tuple[Iterator[T], ...]:
        """Blocking version of `atee`."""
        refuse_in_loop("tee()", "channel.atee()")
        self.subscribe()
        return tee(self, n)

    def bind(self, mux: "StreamMux", method: str | None) -> None:
        """Attach it to a run; `method` is the name of its events in the run's log."""
        self._mux, self._method = mux, method

    def subscribe(self) -> None:
        """Keep items from now on, for the one reader."""
        if self._mux is None:
            raise InvalidConfigError(
                "this StreamChannel is not attached to a run",
                do="return it from a transformer's init(), and read it from run.extensions",
            )
        if self._subscribed:
            raise InvalidConfigError(
                f"the channel {self.name or ''!r} has a reader already",
                do="use atee(n), or tee(n) in blocking code, for several readers",
            )
        self._subscribed = True

    def keep(self) -> None:
        """Keep items before a reader subscribes."""
        self._keeps = True

    def release(self) -> None:
        """Unsubscribe, so that another reader can subscribe."""
        self._subscribed = False

    def discard(self) -> None:
        """Drop unread and future items: the only reader has left."""
        self._discarded = True
        self._items.clear()

    @property
    def waiting(self) -> int | None:
        """The stamp of the oldest item; None without one."""
        return self._items[0][0] if self._items else None

    @property
    def is_over(self) -> bool:
        """Whether it is closed and has no unread item. Raises the error that it failed with."""
        if self._items or not self._closed:
            return False
        if self._error is not None:
            raise self._error
        return True

    def take(self) -> T:
        """Remove and return the oldest item."""
        return self._items.popleft()[1]

    async def pull(self) -> T | Any:
        """Return the next item, or END; advance the run until there is one."""
        assert self._mux is not None
        while not self._items:
            if self.is_over:
                return END
            if not await self._mux.advance() and not self._items and not self._closed:
                return END
        return self.take()


class StreamMux:
    """The transformers of one run, or of one subgraph run.

    Args:
        factories: make the transformers.
        scope: the namespace of the run.
        advance: lets the run advance by one event; returns False at its end.
        blocking: whether the reader is sync code.
        above: the mux of the parent run.

    `apush`, `aclose` and `afail` have forms without the `a` for plug-ins that only have sync
    methods. Protected names are those that plug-ins written for LangGraph use.

    Attributes:
        waits: whether handling an event may suspend, because a transformer of the program has
            async methods.
        extensions: every projection, by name.
        native: the names of those that are attributes of the run.
        log: the events that no transformer kept back.
    """

    def __init__(
        self,
        factories: Sequence[TransformerFactory],
        *,
        scope: Namespace,
        advance: Callable[[], Awaitable[bool]],
        blocking: bool,
        above: "StreamMux | None" = None,
    ) -> None:
        self.scope = scope
        self.advance = advance
        self.blocking = blocking
        self.extensions: dict[str, Any] = {}
        self.native: set[str] = set()
        self.log: StreamChannel[ProtocolEvent] = StreamChannel()
        self.log.bind(self, None)
        self._factories = factories
        self._above = above
        self._sequence = self._stamp = 0
        self._scheduled: list[Scheduled] = []
        made = [factory(scope) for factory in factories]
        self.transformers = [t for t in made if t.before_builtins]
        self.transformers += [t for t in made if not t.before_builtins]
        self.waits = any(transformer.may_wait for transformer in self.transformers)
        for transformer in self.transformers:
            self._register(transformer)

    @property
    def modes(self) -> frozenset[str]:
        """The stream modes that the transformers need."""
        return frozenset(m for t in self.transformers for m in t.required_stream_modes)

    @property
    def is_async(self) -> bool:
        """Whether the reader is async code."""
        return not self.blocking

    @property
    def changes_messages(self) -> bool:
        """Whether a transformer may change messages before they are shown."""
        return any(t.before_builtins and not _takes_pieces(t) for t in self.transformers)

    def below(self, scope: Namespace) -> "StreamMux":
        """Return a mux with new transformers for a subgraph run."""
        return StreamMux(
            self._factories, scope=scope, advance=self.advance, blocking=self.blocking, above=self
        )

    _make_child = below

    @property
    def _events(self) -> StreamChannel[ProtocolEvent]:
        return self.log

    @property
    def _transformers(self) -> list[StreamTransformer]:
        return self.transformers

    def stamp(self) -> int:
        """Return a number above all earlier ones, in this run and its subgraph runs."""
        if self._above is not None:
            return self._above.stamp()
        self._stamp += 1
        return self._stamp

    def forward(self, method: str, data: Any) -> None:
        """Log an item of a named channel."""
        self._log(event_of(method, self.scope, data))

    def schedule(self, coroutine: Coroutine[Any, Any, Any], *, logs: bool) -> Scheduled:
        """Run a coroutine concurrently with the events."""
        scheduled = Scheduled(coroutine, logs=logs)
        self._scheduled.append(scheduled)
        scheduled.start()
        return scheduled

    async def apush(self, event: ProtocolEvent) -> None:
        """Pass an event to the transformers, and log it unless one of them returns False."""
        passes = True
        for transformer in self.transformers:  # all see it, even after one returned False
            if await transformer.aprocess(event) is False:
                passes = False
        if passes:
            self._log(event)

    def push(self, event: ProtocolEvent) -> None:
        """Sync version of `apush`.

        Raises:
            InvalidConfigError: a transformer waits.
        """
        _at_once(self.apush(event))

    async def aclose(self) -> None:
        """Handle the end of the run.

        Raises:
            Exception: the error of a coroutine scheduled with `on_error="raise"`.
        """
        # Scheduled coroutines may still push items, so channels are closed last.
        for scheduled in self._scheduled:
            await scheduled.wait()
            if scheduled.error is not None:
                raise scheduled.error
        for transformer in self.transformers:
            await transformer.afinalize()
        for channel in self._channels():
            channel.close()

    def close(self) -> None:
        """Sync version of `aclose`; raises also as `push`."""
        _at_once(self.aclose())

    async def afail(self, error: BaseException) -> None:
        """Handle the failure of the run."""
        for scheduled in self._scheduled:
            scheduled.cancel()
        for scheduled in self._scheduled:
            await scheduled.wait()
        for transformer in self.transformers:
            await transformer.afail(error)
        for channel in self._channels():
            channel.fail(error)

    def fail(self, error: BaseException) -> None:
        """Sync version of `afail`; raises as `push`."""
        _at_once(self.afail(error))

    def _register(self, transformer: StreamTransformer) -> None:
        native = bool(getattr(transformer, "_native", False))  # any object may be one
        for name, projection in transformer.init().items():
            if name in self.extensions:
                raise InvalidConfigError(
                    f"two transformers have a projection {name!r}; the second is "
                    f"{type(transformer).__name__}",
                    do="give each projection a name of its own in init()",
                )
            self.extensions[name] = projection
            if native:
                self.native.add(name)
            if isinstance(projection, StreamChannel):
                own = projection.name
                projection.bind(self, own if native or own is None else f"custom:{own}")
        transformer.registered(self)

    def _channels(self) -> list[StreamChannel[Any]]:
        found = [p for p in self.extensions.values() if isinstance(p, StreamChannel)]
        return [*found, self.log]

    def _log(self, event: ProtocolEvent) -> None:
        if self._above is None:  # the log of a subgraph run shows the same event objects
            event["seq"] = self._sequence
            self._sequence += 1
        self.log.push(event)


def _takes_pieces(transformer: StreamTransformer) -> bool:
    """Whether a transformer that comes first leaves messages alone, or judges each piece alone."""
    modes = transformer.required_stream_modes
    # LangChain's hides all pieces of some models; most agents have it, and need the live text.
    return type(transformer).__name__ == "InternalCallTransformer" or (
        bool(modes) and "messages" not in modes
    )


def _at_once(handling: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine that doesn't suspend, in code that can't await it."""
    try:
        handling.send(None)
    except StopIteration:
        return
    handling.close()
    raise InvalidConfigError(
        "a sync method of a transformer passes events to one with async methods that wait",
        do="override aprocess(), and call apush(), aclose() and afail() of the mux in it",
    )


def event_of(
    method: str, namespace: Namespace, data: Any, interrupts: tuple[Any, ...] | None = None
) -> ProtocolEvent:
    """Make an event with the current time."""
    params = EventParams(namespace=list(namespace), timestamp=int(time.time() * 1000), data=data)
    if interrupts is not None:
        params["interrupts"] = interrupts
    return ProtocolEvent(type="event", method=method, params=params)
