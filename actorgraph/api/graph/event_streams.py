"""The event streams of a compiled graph's runs: typed projections, or LangChain's events."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from actorgraph.api.graph.graph_settings import GraphSettings
from actorgraph.api.graph.subgraphs import graph_at
from actorgraph.api.options import check_names
from actorgraph.api.streams.events import TransformerFactory
from actorgraph.bridging import BRIDGE
from actorgraph.errors import InvalidConfigError
from actorgraph.loops import on_trio
from actorgraph.superstep.nesting import nodes_of
from actorgraph.values.configs import Config
from actorgraph.values.stream_items import Namespace

if TYPE_CHECKING:
    from actorgraph.api.streams.langchain_events import CallbackEvents, SpanStream
    from actorgraph.api.streams.run_stream import AsyncGraphRunStream


class GraphEvents(msgspec.Struct, frozen=True):
    """Reads a graph's runs as events.

    Attributes:
        graph: the compiled graph. Its own `astream` is called, which a program may have replaced.
    """

    graph: GraphSettings

    def read(
        self,
        given: Any,
        config: Config | None,
        version: str,
        transformers: Sequence[TransformerFactory],
        options: dict[str, Any],
    ) -> "AsyncGraphRunStream | CallbackEvents":
        """See `CompiledStateGraph.astream_events`."""
        if version in ("v1", "v2") and not transformers:
            if version == "v1" or _chain_events_here():
                return BRIDGE.chain_events(self.graph, given, config, version, options)
            return self._read_spans(given, config, options)
        return self.projections(given, config, version, transformers, options, blocking=False)

    def _read_spans(
        self, given: Any, config: Config | None, options: dict[str, Any]
    ) -> "SpanStream":
        from actorgraph.api.streams.langchain_events import (
            FILTERS,
            MODES,
            EventFilter,
            SpanEvents,
            SpanStream,
        )

        wanted = EventFilter({name: options.pop(name, None) for name in FILTERS})
        check_names("astream_events", options)
        modes: Any = list(MODES)
        program: Any = self.graph
        stream = program.astream(
            given, config, stream_mode=modes, subgraphs=True, version="v2", **options
        )
        given_config = config or {}
        tags: list[str] = list(given_config.get("tags") or ())
        spans = SpanEvents(
            partial(self._name_at, stream.namespace),
            given,
            stream.namespace,
            tags,
            given_config.get("metadata") or {},
        )
        return SpanStream(stream, spans, wanted.takes)

    def _name_at(self, own: Namespace, namespace: Namespace) -> str:
        """Return the name of this graph, or of the subgraph whose runs have a namespace below it.

        Args:
            own: the namespace of this graph's run.
        """
        found = graph_at(self.graph, nodes_of("|".join(namespace[len(own) :])))
        return "LangGraph" if found is None else found.plan.name

    def projections(
        self,
        given: Any,
        config: Config | None,
        version: str,
        transformers: Sequence[TransformerFactory],
        options: dict[str, Any],
        *,
        blocking: bool,
    ) -> "AsyncGraphRunStream":
        """See `CompiledStateGraph.astream_events`, version 3.

        Args:
            blocking: whether they are read with a plain `for`.
        """
        from actorgraph.api.streams.run_stream import AsyncGraphRunStream, Pump

        _check(version, options)
        check_names("stream_events" if blocking else "astream_events", options)
        factories = (*_built_in(), *self.graph.stream_transformers, *transformers)
        modes: Any = sorted({mode for factory in factories for mode in _modes_of(factory)})
        program: Any = self.graph
        stream = program.astream(
            given, config, stream_mode=modes, subgraphs=True, version="v2", **options
        )
        pump = Pump(factories, scope=stream.namespace, blocking=blocking)
        pump.attach(stream)
        return AsyncGraphRunStream(pump)


def _chain_events_here() -> bool:
    """Whether LangChain makes the events of version 2: the program has imported it, on asyncio."""
    return BRIDGE.loaded_runnable() is not None and not on_trio()


_OWNED = ("stream_mode", "subgraphs")


def _built_in() -> tuple[TransformerFactory, ...]:
    from actorgraph.api.streams.message_streams import MessagesTransformer
    from actorgraph.api.streams.projections import LifecycleTransformer, ValuesTransformer
    from actorgraph.api.streams.run_stream import SubgraphTransformer

    return (ValuesTransformer, MessagesTransformer, LifecycleTransformer, SubgraphTransformer)


def _modes_of(factory: TransformerFactory) -> Sequence[str]:
    """Return the modes that a transformer needs; a function is called once to find out."""
    known: Sequence[str] | None = getattr(factory, "required_stream_modes", None)
    return factory(()).required_stream_modes if known is None else known


def _check(version: str, options: dict[str, Any]) -> None:
    if version != "v3":
        raise InvalidConfigError(
            f'unknown version={version!r}; expected "v3", or "v1" or "v2" for astream_events() '
            "without transformers",
            do='use version="v3", or astream(stream_mode=[...]) for chunks',
        )
    for name in _OWNED:
        if name in options:
            raise InvalidConfigError(
                f"astream_events() has no argument {name!r}; the transformers determine it",
                do="leave it out; transformers=[UpdatesTransformer] adds run.updates",
            )
