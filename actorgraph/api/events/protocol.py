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

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NotRequired, TypedDict

from actorgraph.errors import InvalidConfigError
from actorgraph.values.streams import Namespace

if TYPE_CHECKING:
    from actorgraph.api.events.mux import StreamMux
    from actorgraph.api.events.scheduled import Scheduled


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
            change it.
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
        return not own._never_waits and not (  # noqa: SLF001 - of this class
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
