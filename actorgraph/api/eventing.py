"""Event streams of a compiled graph: `astream_events` and `stream_events`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

from actorgraph.api.blocking import refuse_in_loop
from actorgraph.api.compiled import Config
from actorgraph.api.events.protocol import TransformerFactory
from actorgraph.api.running import RunMethods
from actorgraph.errors import InvalidConfigError

if TYPE_CHECKING:  # imported by the first stream of events
    from actorgraph.api.events.readers import AsyncGraphRunStream, GraphRunStream
    from actorgraph.api.events.span_stream import SpanStream

_OWNED = ("stream_mode", "subgraphs")


class EventMethods(RunMethods):
    """`astream_events` and `stream_events`."""

    transformers: tuple[TransformerFactory, ...] = ()

    @overload
    def astream_events(
        self,
        input: Any,
        config: Config | None = None,
        *,
        version: Literal["v3"],
        transformers: Sequence[TransformerFactory] = (),
        **options: Any,
    ) -> "AsyncGraphRunStream": ...

    @overload
    def astream_events(
        self,
        input: Any,
        config: Config | None = None,
        *,
        version: Literal["v2"] = "v2",
        **options: Any,
    ) -> "SpanStream": ...

    def astream_events(
        self,
        input: Any,
        config: Config | None = None,
        *,
        version: str = "v2",
        transformers: Sequence[TransformerFactory] = (),
        **options: Any,
    ) -> "AsyncGraphRunStream | SpanStream":
        """Run the graph and read typed projections of it, or LangChain's events.

        ```python
        async with graph.astream_events({"question": "why?"}, version="v3") as run:
            async for message in run.messages:
                async for text in message.text:
                    print(text, end="")
            print(await run.output())
        ```

        Args:
            input: as in `ainvoke`.
            config: as in `ainvoke`.
            version: "v3" for projections. "v2", the default, for an iterator of LangChain's
                events (`StreamEvent`); it takes the options `include_names`, `include_types`,
                `include_tags` and `exclude_...`.
            transformers: subclasses of `StreamTransformer`, or functions of a scope that make
                one; they come after those of `compile(transformers=)`.
            options: of `astream`, except `stream_mode` and `subgraphs`, which follow from the
                transformers.
        Returns: the run, which begins when it is read. Awaiting it returns the same object.
        Raises:
            InvalidConfigError: the version is unknown, or the option is one that follows from
                the transformers.
            Exception: as `astream`.
        """
        if version == "v2" and not transformers:
            return self._read_spans(input, config, options)
        return self._read_events(input, config, version, transformers, options, blocking=False)

    def _read_spans(
        self, given: Any, config: Config | None, options: dict[str, Any]
    ) -> "SpanStream":
        from actorgraph.api.events.span_stream import SpanStream
        from actorgraph.api.events.spans import FILTERS, MODES, EventFilter, SpanEvents

        wanted = EventFilter({name: options.pop(name, None) for name in FILTERS})
        modes: Any = list(MODES)
        stream = self.astream(
            given, config, stream_mode=modes, subgraphs=True, version="v2", **options
        )
        given_config = config or {}
        tags: list[str] = list(given_config.get("tags") or ())
        spans = SpanEvents(
            self.name, given, stream.namespace, tags, given_config.get("metadata") or {}
        )
        return SpanStream(stream, spans, wanted.takes)

    def stream_events(
        self, input: Any, config: Config | None = None, *, version: str = "v3", **options: Any
    ) -> "GraphRunStream":
        """Blocking version of `astream_events`: projections are read with a plain `for`."""
        refuse_in_loop("astream_events")
        from actorgraph.api.events.readers import GraphRunStream

        transformers = options.pop("transformers", ())
        run = self._read_events(input, config, version, transformers, options, blocking=True)
        return GraphRunStream(run)

    def _read_events(
        self,
        given: Any,
        config: Config | None,
        version: str,
        transformers: Sequence[TransformerFactory],
        options: dict[str, Any],
        *,
        blocking: bool,
    ) -> "AsyncGraphRunStream":
        from actorgraph.api.events.pump import Pump
        from actorgraph.api.events.readers import AsyncGraphRunStream

        _check(version, options)
        factories = (*_built_in(), *self.transformers, *transformers)
        modes: Any = sorted({mode for factory in factories for mode in _modes_of(factory)})
        stream = self.astream(
            given, config, stream_mode=modes, subgraphs=True, version="v2", **options
        )
        pump = Pump(factories, scope=stream.namespace, blocking=blocking)
        pump.attach(stream)
        return AsyncGraphRunStream(pump)


def _built_in() -> tuple[TransformerFactory, ...]:
    from actorgraph.api.events.models import MessagesTransformer
    from actorgraph.api.events.modes import ValuesTransformer
    from actorgraph.api.events.nested import LifecycleTransformer
    from actorgraph.api.events.subgraphs import SubgraphTransformer

    return (ValuesTransformer, MessagesTransformer, LifecycleTransformer, SubgraphTransformer)


def _modes_of(factory: TransformerFactory) -> Sequence[str]:
    """Return the modes that a transformer needs; a function is called once to find out."""
    known: Sequence[str] | None = getattr(factory, "required_stream_modes", None)
    return factory(()).required_stream_modes if known is None else known


def _check(version: str, options: dict[str, Any]) -> None:
    if version != "v3":
        raise InvalidConfigError(
            f'unknown version={version!r}; expected "v3", or "v2" for astream_events() without '
            "transformers",
            do='use version="v3", or astream(stream_mode=[...]) for chunks',
        )
    for name in _OWNED:
        if name in options:
            raise InvalidConfigError(
                f"astream_events() has no argument {name!r}; the transformers determine it",
                do="leave it out; transformers=[UpdatesTransformer] adds run.updates",
            )
