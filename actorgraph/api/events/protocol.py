"""What passes through an event stream, and what a plug-in for one must do."""

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

    namespace: of the run that it comes from. timestamp: milliseconds since 1970, for display:
    it may go backwards. interrupts: of `values` events, the questions that wait.
    """

    namespace: list[str]
    timestamp: int
    data: Any
    interrupts: NotRequired[tuple[Any, ...]]


class ProtocolEvent(TypedDict):
    """One event. `method` is a stream mode, or a channel's name; `seq` rises by one per event."""

    type: Literal["event"]
    method: str
    params: EventParams
    seq: NotRequired[int]


class StreamTransformer(ABC):
    """A plug-in that sees every event of a run and makes projections of them.

    Give classes, or functions of a scope, to `compile(transformers=)` or to
    `astream_events(version="v3", transformers=)`. One is made for the run and one for every
    graph that runs inside of it.

    Args:
        scope: the namespace of the run that it stands for.

    Attributes:
        required_stream_modes: the modes that it needs the run to tell.
        before_builtins: whether it sees an event before the built-in projections do, e.g. to
            change it.
        requires_async: kept for programs that set it; both lanes are async underneath.
    """

    requires_async: ClassVar[bool] = False
    supports_sync: ClassVar[bool] = False
    required_stream_modes: ClassVar[tuple[str, ...]] = ()
    before_builtins: ClassVar[bool] = False
    _native: ClassVar[bool] = False
    _passes_on: ClassVar[bool] = False

    def __init__(self, scope: Namespace = ()) -> None:
        self.scope = scope
        self._mux: StreamMux | None = None

    @property
    def may_wait(self) -> bool:
        """Whether a reader that is cancelled may be so in the middle of an event."""
        own, plain = type(self), StreamTransformer
        return not own._passes_on and not (  # noqa: SLF001 - of this class
            own.aprocess is plain.aprocess
            and own.afinalize is plain.afinalize
            and own.afail is plain.afail
        )

    @abstractmethod
    def init(self) -> dict[str, Any]:
        """Its projections: name -> `StreamChannel`, or any other object.

        They are `run.extensions[name]`; those of a native transformer are `run.name` too.
        """

    def registered(self, mux: "StreamMux") -> None:
        """Told once, when its projections are bound."""
        self._mux = mux

    def process(self, event: ProtocolEvent) -> bool:
        """See an event; False keeps it out of the run's own log.

        Raises:
            NotImplementedError: neither this nor `aprocess` was overridden.
        """
        raise NotImplementedError(f"{type(self).__name__} must override process() or aprocess()")

    async def aprocess(self, event: ProtocolEvent) -> bool:
        """The same where waiting is needed; the event goes on to the next one afterwards."""
        return self.process(event)

    def finalize(self) -> None:
        """The run has ended. Channels are closed without this."""
        return

    async def afinalize(self) -> None:
        """The same where waiting is needed; what was scheduled has ended before."""
        self.finalize()

    def fail(self, err: BaseException) -> None:
        """The run has failed. Channels are failed without this."""
        return

    async def afail(self, err: BaseException) -> None:
        """The same where waiting is needed; what was scheduled has been cancelled before."""
        self.fail(err)

    def schedule(
        self, coro: Coroutine[Any, Any, Any], *, on_error: Literal["log", "raise"] = "log"
    ) -> "Scheduled":
        """Run a coroutine beside the events; the run's end waits for it.

        Args:
            on_error: "log" writes its error to the log, "raise" makes it the run's.
        Raises:
            InvalidConfigError: the transformer belongs to no run.
        """
        if self._mux is None:
            coro.close()
            raise InvalidConfigError(
                f"{type(self).__name__}.schedule() was called before the run began",
                do="call it in process() or aprocess()",
            )
        return self._mux.schedule(coro, logs=on_error == "log")


TransformerFactory = Callable[[Namespace], StreamTransformer]
"""Makes a transformer for a scope; a transformer's class is one."""
