"""StreamMux: passes each event of a run through its transformers, and keeps their projections."""

import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from actorgraph.api.events.channel import StreamChannel
from actorgraph.api.events.protocol import (
    EventParams,
    ProtocolEvent,
    StreamTransformer,
    TransformerFactory,
)
from actorgraph.api.events.scheduled import Scheduled
from actorgraph.errors import InvalidConfigError
from actorgraph.values.streams import Namespace


class StreamMux:
    """The transformers of one run, or of one subgraph run.

    Args:
        factories: make the transformers.
        scope: the namespace of the run.
        advance: lets the run advance by one event; returns False at its end.
        blocking: whether the reader is sync code.
        above: the mux of the parent run.

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

    def below(self, scope: Namespace) -> "StreamMux":
        """Return a mux with new transformers for a subgraph run."""
        return StreamMux(
            self._factories, scope=scope, advance=self.advance, blocking=self.blocking, above=self
        )

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

    async def push(self, event: ProtocolEvent) -> None:
        """Pass an event to the transformers, and log it unless one of them returns False."""
        passes = True
        for transformer in self.transformers:  # all see it, even after one returned False
            if await transformer.aprocess(event) is False:
                passes = False
        if passes:
            self._log(event)

    async def close(self) -> None:
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

    async def fail(self, error: BaseException) -> None:
        """Handle the failure of the run."""
        for scheduled in self._scheduled:
            scheduled.cancel()
        for scheduled in self._scheduled:
            await scheduled.wait()
        for transformer in self.transformers:
            await transformer.afail(error)
        for channel in self._channels():
            channel.fail(error)

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


def event_of(
    method: str, namespace: Namespace, data: Any, interrupts: tuple[Any, ...] | None = None
) -> ProtocolEvent:
    """Make an event with the current time."""
    params = EventParams(namespace=list(namespace), timestamp=int(time.time() * 1000), data=data)
    if interrupts is not None:
        params["interrupts"] = interrupts
    return ProtocolEvent(type="event", method=method, params=params)
