"""Describe a compiled graph: its channels, nodes and schemas, its drawing and topology.

Nothing here runs a node.
"""

import contextlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from actorgraph.api.graph.setup import CompiledBase
from actorgraph.bridging import BRIDGE
from actorgraph.channels import Channel
from actorgraph.errors.excerpts import count_text, names_text
from actorgraph.plan.json_schema import channels_schema, json_schema
from actorgraph.plan.plan import NodePlan
from actorgraph.plan.schema import Managed
from actorgraph.values.configs import Config
from actorgraph.values.constants import ROOT, START
from actorgraph.values.schema_types import ContextT, InputT, OutputT, ResultT, StateT, ValuesT

if TYPE_CHECKING:
    from actorgraph.api.graph.drawable import DrawableGraph


_Keys = str | Sequence[str]


class DescriptionMethods(CompiledBase[StateT, ContextT, InputT, OutputT, ValuesT, ResultT]):
    """Attributes and schemas that programs read, the drawing and the topology."""

    def __repr__(self) -> str:
        names = [name for name in self.plan.nodes if name != START]
        saver = "" if self.checkpointer in (None, False, True) else f", saver {self.checkpointer!r}"
        kind = type(self).__name__
        return f"<{kind} {self.name!r}: {count_text(len(names), 'node')}{names_text(names)}{saver}>"

    @property
    def channels(self) -> Mapping[str, Channel[Any] | type[Managed]]:
        """Every channel by name, including those of edges; and managed values."""
        plan = self.plan
        return {**plan.channels, **plan.managed} if plan.managed else plan.channels

    @property
    def nodes(self) -> Mapping[str, NodePlan]:
        """Every node by name, including `__start__`."""
        return self.plan.nodes

    @property
    def input_channels(self) -> _Keys:
        """The channels of the input: `__start__`, or those that a `Pregel` was given."""
        entry = self.plan.entry
        if entry is None:
            return START
        names = sorted(entry.writes)
        return names[0] if entry.bare else names

    @property
    def output_channels(self) -> _Keys:
        """The keys that `ainvoke` returns: a list, or the one key whose bare value it returns."""
        return _shown(self.plan.output_keys, bare=self.plan.bare_output)

    @property
    def stream_channels(self) -> _Keys:
        """The keys of snapshots: a list, or the one key whose bare value they hold."""
        return _shown(self.plan.state_keys, bare=self.plan.bare_state)

    @property
    def InputType(self) -> Any:  # noqa: N802 - LangChain's name
        """The type of a run's input; None if it has several channels."""
        keys = self.input_channels
        return self.plan.channels[keys].UpdateType if isinstance(keys, str) else None

    @property
    def OutputType(self) -> Any:  # noqa: N802 - LangChain's name
        """The type of a run's output; None if it has several keys."""
        keys = self.output_channels
        return self.plan.channels[keys].ValueType if isinstance(keys, str) else None

    @property
    def input_schema(self) -> Any:
        """The class of a run's input; a pydantic model if LangChain is loaded."""
        loaded = BRIDGE.loaded_runnable() is not None
        return self.get_input_schema() if loaded else self.plan.sources.input

    @property
    def output_schema(self) -> Any:
        """The class of a run's output; a pydantic model if LangChain is loaded."""
        loaded = BRIDGE.loaded_runnable() is not None
        return self.get_output_schema() if loaded else self.plan.sources.output

    @property
    def config_specs(self) -> list[Any]:
        """Fields of a config that LangChain's chains collect: none."""
        return []

    def get_input_schema(self, config: Config | None = None) -> Any:
        """Return a pydantic model of a run's input.

        Raises:
            MissingExtraError: langchain-core is not installed.
        """
        runnable, keys = BRIDGE.imported_runnable("get_input_schema()"), self.input_channels
        if isinstance(keys, str):
            # Of a Struct pydantic makes a model that can't describe itself.
            if self.plan.entry is not None or not hasattr(
                self.plan.sources.input, "__struct_fields__"
            ):
                with contextlib.suppress(BRIDGE.refused_by_pydantic()):
                    return runnable.get_input_schema(self, config)
            keys = sorted(self.plan.start.writes)
        types = {key: self.plan.channels[key].UpdateType for key in keys}
        return BRIDGE.pydantic_model(self.get_name("Input"), types)

    def get_output_schema(self, config: Config | None = None) -> Any:
        """Return a pydantic model of a run's output.

        Raises:
            MissingExtraError: langchain-core is not installed.
        """
        runnable, keys = BRIDGE.imported_runnable("get_output_schema()"), self.output_channels
        if isinstance(keys, str):
            return runnable.get_output_schema(self, config)
        types = {key: self.plan.channels[key].ValueType for key in keys}
        return BRIDGE.pydantic_model(self.get_name("Output"), types)

    @property
    def context_schema(self) -> Any:
        """The declared class of `context=`; None without one."""
        return self.plan.sources.context

    def get_input_jsonschema(self, config: Any = None) -> dict[str, Any]:
        """Return the JSON schema of a run's input."""
        if self.plan.entry is None:
            return json_schema(self.plan.sources.input, title=f"{self.name}Input")
        return self._schema_of(self.input_channels, "Input")

    def get_output_jsonschema(self, config: Any = None) -> dict[str, Any]:
        """Return the JSON schema of `ainvoke`'s output."""
        if self.plan.entry is None:
            return json_schema(self.plan.sources.output, title=f"{self.name}Output", by_alias=False)
        return self._schema_of(self.output_channels, "Output")

    def get_state_jsonschema(self) -> dict[str, Any]:
        """Return the JSON schema of the state, without private keys of nodes."""
        if self.plan.entry is None:
            return json_schema(self.plan.sources.state, title=f"{self.name}State", by_alias=False)
        return self._schema_of(self.stream_channels, "State")

    def get_context_jsonschema(self) -> dict[str, Any] | None:
        """Return the JSON schema of `context=`; None if the graph declares none."""
        declared = self.context_schema
        return None if declared is None else json_schema(declared, title=f"{self.name}Context")

    def get_config_jsonschema(self, *, include: Sequence[str] | None = None) -> dict[str, Any]:
        """Return the JSON schema of a call's config, with the context as its `configurable`.

        Args:
            include: other keys of a config to include, e.g. `["tags", "metadata"]`.
        """
        kinds = {key: _CONFIG_KEYS[key] for key in include or () if key in _CONFIG_KEYS}
        described = channels_schema(kinds, title=f"{self.name}Config")
        context = self.get_context_jsonschema()
        if context is not None:
            definitions = {**context.pop("$defs", {}), **described.pop("$defs", {})}
            described["properties"]["configurable"] = context
            if definitions:
                described["$defs"] = definitions
        return described

    def _schema_of(self, keys: _Keys, what: str) -> dict[str, Any]:
        title, channels = f"{self.name}{what}", self.plan.channels
        if isinstance(keys, str):
            return json_schema(channels[keys].typ, title=title, by_alias=what == "Input")
        return channels_schema({key: channels[key].typ for key in keys}, title=title)

    def get_graph(
        self, config: Config | None = None, *, xray: bool | int = False
    ) -> "DrawableGraph":
        """Return the graph as a drawing: Mermaid, ASCII, SVG, PNG, JSON.

        Args:
            config: ignored; accepted for LangGraph's programs.
            xray: whether to expand nodes that are compiled graphs, or whose function refers to
                one; a number: the levels to expand.
        """
        from actorgraph.api.graph.drawable import DrawableGraph
        from actorgraph.drawing.shape import shape_of, with_inside

        shape = shape_of(self.plan)
        if xray:
            deeper = xray if isinstance(xray, bool) or xray <= 0 else xray - 1
            graphs = {n: g for n, g in self.subgraphs.items() if isinstance(g, DescriptionMethods)}
            insides = {n: g.get_graph(config, xray=deeper) for n, g in graphs.items()}
            shape = with_inside(shape, insides)
        return DrawableGraph(shape.nodes, shape.edges)

    async def aget_graph(
        self, config: Config | None = None, *, xray: bool | int = False
    ) -> "DrawableGraph":
        """Async version of `get_graph`; it does not wait for anything."""
        return self.get_graph(config, xray=xray)

    def topology(self) -> dict[str, Any]:
        """Return the graph as JSON data in a stable order, with a report about its wiring.

        Returns: `name`, `graph_id`, `nodes`, `edges`, `joins`, `routers` and `report`.
            `routers` lists for each conditional edge `{"node", "name", "called_on", "why"}`:
            its router is called on the "event loop" or in a "worker thread". `report` lists
            `{"code", "node", "what", "do"}`, empty if no problem was found. Codes:
            "unreachable", "join_never_completes", "join_of_alternatives", "no_way_to_end",
            "open_route".
        """
        from actorgraph.drawing.topology import topology_of

        return topology_of(self.plan)

    def _repr_mimebundle_(self, **options: Any) -> dict[str, Any]:
        drawing = self.get_graph()
        return {
            "text/plain": repr(self),
            "text/vnd.mermaid": drawing.draw_mermaid(),
            "image/svg+xml": drawing.draw_svg(),
        }


_CONFIG_KEYS: dict[str, Any] = {
    "tags": list[str],
    "metadata": dict[str, Any],
    "run_name": str,
    "run_id": str,
    "max_concurrency": int,
    "recursion_limit": int,
    "configurable": dict[str, Any],
}


def _shown(keys: tuple[str, ...], *, bare: bool) -> _Keys:
    return keys[0] if bare or keys == (ROOT,) else list(keys)
