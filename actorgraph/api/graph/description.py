"""The description of a compiled graph: its channels, nodes and schemas, its drawing and topology.

Nothing here runs a node.
"""

import contextlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from actorgraph.api.graph.graph_settings import GraphSettings
from actorgraph.bridging import BRIDGE
from actorgraph.channels import Channel
from actorgraph.errors.excerpts import count_text, names_text
from actorgraph.plan.json_schema import channels_schema, json_schema
from actorgraph.plan.schema import Managed
from actorgraph.values.configs import Config
from actorgraph.values.constants import ROOT, START

if TYPE_CHECKING:
    from actorgraph.api.graph.drawable import DrawableGraph


Keys = str | Sequence[str]


class GraphDescription(msgspec.Struct, frozen=True):
    """Describes a graph.

    Attributes:
        graph: the compiled graph.
    """

    graph: GraphSettings

    def text(self) -> str:
        """The graph in one line, for `repr`."""
        graph = self.graph
        names = [name for name in graph.plan.nodes if name != START]
        saver = graph.checkpointer
        stored = "" if saver in (None, False, True) else f", saver {saver!r}"
        nodes = f"{count_text(len(names), 'node')}{names_text(names)}"
        return f"<{type(graph).__name__} {graph.name!r}: {nodes}{stored}>"

    @property
    def channels(self) -> Mapping[str, Channel[Any] | type[Managed]]:
        """See `CompiledStateGraph.channels`."""
        plan = self.graph.plan
        return {**plan.channels, **plan.managed} if plan.managed else plan.channels

    @property
    def input_keys(self) -> Keys:
        """See `CompiledStateGraph.input_channels`."""
        entry = self.graph.plan.entry
        if entry is None:
            return START
        names = sorted(entry.writes)
        return names[0] if entry.bare else names

    @property
    def output_keys(self) -> Keys:
        """See `CompiledStateGraph.output_channels`."""
        return _shown(self.graph.plan.output_keys, bare=self.graph.plan.bare_output)

    @property
    def state_keys(self) -> Keys:
        """See `CompiledStateGraph.stream_channels`."""
        return _shown(self.graph.plan.state_keys, bare=self.graph.plan.bare_state)

    def input_type(self, keys: Keys) -> Any:
        """See `CompiledStateGraph.InputType`."""
        return self.graph.plan.channels[keys].UpdateType if isinstance(keys, str) else None

    def output_type(self, keys: Keys) -> Any:
        """See `CompiledStateGraph.OutputType`."""
        return self.graph.plan.channels[keys].ValueType if isinstance(keys, str) else None

    def input_model(self, keys: Keys, config: Config | None) -> Any:
        """See `CompiledStateGraph.get_input_schema`."""
        runnable, plan = BRIDGE.imported_runnable("get_input_schema()"), self.graph.plan
        if isinstance(keys, str):
            # Of a Struct pydantic makes a model that can't describe itself.
            if plan.entry is not None or not hasattr(plan.sources.input, "__struct_fields__"):
                with contextlib.suppress(BRIDGE.refused_by_pydantic()):
                    return runnable.get_input_schema(self.graph, config)
            keys = sorted(plan.start.writes)
        types = {key: plan.channels[key].UpdateType for key in keys}
        return BRIDGE.pydantic_model(self.graph.get_name("Input"), types)

    def output_model(self, keys: Keys, config: Config | None) -> Any:
        """See `CompiledStateGraph.get_output_schema`."""
        runnable, plan = BRIDGE.imported_runnable("get_output_schema()"), self.graph.plan
        if isinstance(keys, str):
            return runnable.get_output_schema(self.graph, config)
        types = {key: plan.channels[key].ValueType for key in keys}
        return BRIDGE.pydantic_model(self.graph.get_name("Output"), types)

    def json_input(self, keys: Keys) -> dict[str, Any]:
        """See `CompiledStateGraph.get_input_jsonschema`."""
        plan, name = self.graph.plan, self.graph.name
        if plan.entry is None:
            return json_schema(plan.sources.input, title=f"{name}Input")
        return self._schema_of(keys, "Input")

    def json_output(self, keys: Keys) -> dict[str, Any]:
        """See `CompiledStateGraph.get_output_jsonschema`."""
        plan, name = self.graph.plan, self.graph.name
        if plan.entry is None:
            return json_schema(plan.sources.output, title=f"{name}Output", by_alias=False)
        return self._schema_of(keys, "Output")

    def json_state(self, keys: Keys) -> dict[str, Any]:
        """See `CompiledStateGraph.get_state_jsonschema`."""
        plan, name = self.graph.plan, self.graph.name
        if plan.entry is None:
            return json_schema(plan.sources.state, title=f"{name}State", by_alias=False)
        return self._schema_of(keys, "State")

    def json_config(
        self, context: dict[str, Any] | None, include: Sequence[str] | None
    ) -> dict[str, Any]:
        """See `CompiledStateGraph.get_config_jsonschema`.

        Args:
            context: the JSON schema of the context; None without one.
        """
        kinds = {key: _CONFIG_KEYS[key] for key in include or () if key in _CONFIG_KEYS}
        described = channels_schema(kinds, title=f"{self.graph.name}Config")
        if context is not None:
            definitions = {**context.pop("$defs", {}), **described.pop("$defs", {})}
            described["properties"]["configurable"] = context
            if definitions:
                described["$defs"] = definitions
        return described

    def _schema_of(self, keys: Keys, what: str) -> dict[str, Any]:
        title, channels = f"{self.graph.name}{what}", self.graph.plan.channels
        if isinstance(keys, str):
            return json_schema(channels[keys].typ, title=title, by_alias=what == "Input")
        return channels_schema({key: channels[key].typ for key in keys}, title=title)

    def drawing(self, config: Config | None, xray: bool | int) -> "DrawableGraph":
        """See `CompiledStateGraph.get_graph`."""
        from actorgraph.api.graph.drawable import DrawableGraph
        from actorgraph.drawing.shape import shape_of, with_inside

        shape = shape_of(self.graph.plan)
        if xray:
            deeper = xray if isinstance(xray, bool) or xray <= 0 else xray - 1
            graphs: dict[str, Any] = {
                name: graph
                for name, graph in self.graph.subgraphs.items()
                if isinstance(graph, GraphSettings)
            }
            insides = {n: g.get_graph(config, xray=deeper) for n, g in graphs.items()}
            shape = with_inside(shape, insides)
        return DrawableGraph(shape.nodes, shape.edges)


_CONFIG_KEYS: dict[str, Any] = {
    "tags": list[str],
    "metadata": dict[str, Any],
    "run_name": str,
    "run_id": str,
    "max_concurrency": int,
    "recursion_limit": int,
    "configurable": dict[str, Any],
}


def _shown(keys: tuple[str, ...], *, bare: bool) -> Keys:
    return keys[0] if bare or keys == (ROOT,) else list(keys)
