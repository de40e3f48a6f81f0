"""StreamMux: passes each event of a run through its transformers, and keeps their projections.

Receives   events, one at a time, from whoever reads the run
Sends      what transformers let pass, to the run's own log; items of named channels too
Order      transformers that ask to be before the built-in ones, those, then the others
Ends       with the run: scheduled work first, then the transformers, then every channel
"""

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
    """The transformers of one run, or of one graph that runs inside of it.

    Args:
        factories: make the transformers.
        scope: the namespace of the run.
        advance: lets the run go one event further; False at its end.
        blocking: whether the reader's code has no event loop.
        above: the mux of the run that this one runs in.

    Attributes:
        waits: whether showing an event may suspend: transformers of the program are async.
        extensions: every projection, by name. native: those that are attributes of the run.
        log: the events that passed.
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
        """A mux of fresh transformers for a graph that runs inside of this one."""
        return StreamMux(
            self._factories, scope=scope, advance=self.advance, blocking=self.blocking, above=self
        )

    def stamp(self) -> int:
        """A number above all that were given before, in this run and in those inside of it."""
        if self._above is not None:
            return self._above.stamp()
        self._stamp += 1
        return self._stamp

    def forward(self, method: str, data: Any) -> None:
        """Put an item of a named channel into the log."""
        self._log(event_of(method, self.scope, data))

    def schedule(self, coroutine: Coroutine[Any, Any, Any], *, logs: bool) -> Scheduled:
        """Run a coroutine beside the events."""
        scheduled = Scheduled(coroutine, logs=logs)
        self._scheduled.append(scheduled)
        scheduled.start()
        return scheduled

    async def push(self, event: ProtocolEvent) -> None:
        """Show an event to the transformers, and log it unless one of them objects."""
        passes = True
        for transformer in self.transformers:
            if await transformer.aprocess(event) is False:
                passes = False
        if passes:
            self._log(event)

    async def close(self) -> None:
        """The run has ended.

        Raises:
            Exception: what scheduled work raised that is to be the run's error.
        """
        for scheduled in self._scheduled:
            await scheduled.wait()
            if scheduled.error is not None:
                raise scheduled.error
        for transformer in self.transformers:
            await transformer.afinalize()
        for channel in self._channels():
            channel.close()

    async def fail(self, error: BaseException) -> None:
        """The run has failed."""
        for scheduled in self._scheduled:
            scheduled.cancel()
        for scheduled in self._scheduled:
            await scheduled.wait()
        for transformer in self.transformers:
            await transformer.afail(error)
        for channel in self._channels():
            channel.fail(error)

    def _register(self, transformer: StreamTransformer) -> None:
        native = bool(getattr(transformer, "_native", False))  # a plug-in's mark
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
        if self._above is None:  # a nested run's log shows the same event
            event["seq"] = self._sequence
            self._sequence += 1
        self.log.push(event)


def event_of(
    method: str, namespace: Namespace, data: Any, interrupts: tuple[Any, ...] | None = None
) -> ProtocolEvent:
    """An event that happens now."""
    params = EventParams(namespace=list(namespace), timestamp=int(time.time() * 1000), data=data)
    if interrupts is not None:
        params["interrupts"] = interrupts
    return ProtocolEvent(type="event", method=method, params=params)
