"""CompiledStateGraph: the compiled graph, what a program calls.

It is made of parts that do the work, each made at a call with the graph as its one attribute:

| part               | what it does                                              | methods in     |
|--------------------|-----------------------------------------------------------|----------------|
| `GraphRuns`        | one run, several at once, a batch of threads              | `run_calls`    |
| `GraphEvents`      | runs read as typed events                                 | `run_calls`    |
| `GraphStreams`     | runs read as chunks                                       | `stream_calls` |
| `ThreadStates`     | state, history, updates, forks, resuming                  | `state_calls`  |
| `GraphDescription` | channels, schemas, the drawing                            | here           |
| `RunSetup`         | what a call means for its run; used by the first three    |                |

The classes of methods hold signatures and documentation, and no rule. So a program's subclass may
replace any method: a part calls others of the graph by their public names. Here are changed
copies too, the cache, and the use as a Runnable (docs/decisions/0209).
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from actorgraph.api import config as configs
from actorgraph.api.blocking import block_on
from actorgraph.api.graph.arguments import stores_of
from actorgraph.api.graph.description import GraphDescription, Keys
from actorgraph.api.graph.graph_settings import renamed
from actorgraph.api.graph.run_calls import RunCalls
from actorgraph.api.graph.state_calls import StateCalls
from actorgraph.api.graph.stream_calls import StreamCalls
from actorgraph.api.savers.adapt import adapt_checkpointer
from actorgraph.bridging import BRIDGE
from actorgraph.channels import Channel
from actorgraph.errors import InvalidConfigError, did_you_mean
from actorgraph.errors.overrides import show_methods_of
from actorgraph.plan.json_schema import json_schema
from actorgraph.plan.plan import NodePlan
from actorgraph.plan.schema import Managed
from actorgraph.ports import Cache
from actorgraph.runtime.stepper import here_or_in_portal
from actorgraph.runtime.task.result_cache import cache_namespace
from actorgraph.values.commands import Command
from actorgraph.values.configs import Config, merge_configs
from actorgraph.values.policies import Durability, DurabilityMode
from actorgraph.values.schema_types import ContextT, InputT, OutputT, ResultT, StateT, ValuesT

if TYPE_CHECKING:
    from actorgraph.api.graph.drawable import DrawableGraph

_COPIED = ("name", "checkpointer", "store", "stores", "config")


class CompiledStateGraph(
    RunCalls[StateT, ContextT, InputT, OutputT, ValuesT, ResultT],
    StreamCalls[StateT, ContextT, InputT, OutputT, ValuesT, ResultT],
    StateCalls[StateT, ContextT, InputT, OutputT, ValuesT, ResultT],
):
    """A compiled graph: immutable, shared by any number of runs, threads and event loops.

    Made by `StateGraph.compile()`. With a checkpointer every call takes
    `config={"configurable": {"thread_id": ...}}`; other keys of `config`: `recursion_limit`
    (supersteps, default 10007), `max_concurrency` (tasks at once, default unbounded),
    `max_unsaved_steps` (async durability, default 16), `metadata` (stored with checkpoints).
    """

    # --- changed copies; the graph itself stays as it is ---

    def with_config(self, config: Config | None = None, **entries: Any) -> Self:
        """Return a copy of the graph with a default config, which a call's config is merged over.

        `configurable` and `metadata` are merged by key, `tags` and `callbacks` are concatenated,
        any other entry of the call replaces the default.

        Args:
            config: entries to bind, e.g. `{"tags": ["a"]}`.
            entries: more of them, e.g. `recursion_limit=50`.
        Raises:
            InvalidConfigError: it is not a dict.
        """
        given = configs.gathered(config), configs.gathered(entries)
        return self._changed(config=merge_configs(self.config, *given))

    def copy(self, update: Mapping[str, Any] | None = None) -> Self:
        """Return a copy of the graph.

        Args:
            update: new values for `name`, `checkpointer`, `store`, `stores` or `config`.
        Raises:
            InvalidConfigError: `update` has another key.
        """
        changes = dict(update or {})
        for name in changes:
            if name not in _COPIED:
                raise InvalidConfigError(
                    f"copy() can't change {name!r} of a compiled graph",
                    do=f"{did_you_mean(name, _COPIED)}; or change the builder and compile again",
                )
        if "name" in changes:
            changes["plan"] = renamed(self.plan, changes.pop("name"))
        if "checkpointer" in changes:
            changes["checkpointer"] = adapt_checkpointer(changes["checkpointer"])
            changes["codec"] = self.codec_for(changes["checkpointer"])
        if "stores" in changes:
            changes["stores"] = stores_of(changes["stores"])
        return self._changed(**changes)

    def with_durability(self, mode: DurabilityMode) -> Self:
        """Return a copy of the graph with another default durability.

        Raises:
            InvalidConfigError: the mode is unknown.
        """
        return self._changed(_durability=configs.durability_of(mode, Durability.SYNC))

    # --- description ---

    def __repr__(self) -> str:
        return GraphDescription(self).text()

    @property
    def channels(self) -> Mapping[str, Channel[Any] | type[Managed]]:
        """Every channel by name, including those of edges; and managed values."""
        return GraphDescription(self).channels

    @property
    def nodes(self) -> Mapping[str, NodePlan]:
        """Every node by name, including `__start__`."""
        return self.plan.nodes

    @property
    def input_channels(self) -> Keys:
        """The channels of the input: `__start__`, or those that a `Pregel` was given."""
        return GraphDescription(self).input_keys

    @property
    def output_channels(self) -> Keys:
        """The keys that `ainvoke` returns: a list, or the one key whose bare value it returns."""
        return GraphDescription(self).output_keys

    @property
    def stream_channels(self) -> Keys:
        """The keys of snapshots: a list, or the one key whose bare value they hold."""
        return GraphDescription(self).state_keys

    @property
    def InputType(self) -> Any:  # noqa: N802 - LangChain's name
        """The type of a run's input; None if it has several channels."""
        return GraphDescription(self).input_type(self.input_channels)

    @property
    def OutputType(self) -> Any:  # noqa: N802 - LangChain's name
        """The type of a run's output; None if it has several keys."""
        return GraphDescription(self).output_type(self.output_channels)

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
        return GraphDescription(self).input_model(self.input_channels, config)

    def get_output_schema(self, config: Config | None = None) -> Any:
        """Return a pydantic model of a run's output.

        Raises:
            MissingExtraError: langchain-core is not installed.
        """
        return GraphDescription(self).output_model(self.output_channels, config)

    @property
    def context_schema(self) -> Any:
        """The declared class of `context=`; None without one."""
        return self.plan.sources.context

    def get_input_jsonschema(self, config: Any = None) -> dict[str, Any]:
        """Return the JSON schema of a run's input."""
        return GraphDescription(self).json_input(self.input_channels)

    def get_output_jsonschema(self, config: Any = None) -> dict[str, Any]:
        """Return the JSON schema of `ainvoke`'s output."""
        return GraphDescription(self).json_output(self.output_channels)

    def get_state_jsonschema(self) -> dict[str, Any]:
        """Return the JSON schema of the state, without private keys of nodes."""
        return GraphDescription(self).json_state(self.stream_channels)

    def get_context_jsonschema(self) -> dict[str, Any] | None:
        """Return the JSON schema of `context=`; None if the graph declares none."""
        declared = self.context_schema
        return None if declared is None else json_schema(declared, title=f"{self.name}Context")

    def get_config_jsonschema(self, *, include: Sequence[str] | None = None) -> dict[str, Any]:
        """Return the JSON schema of a call's config, with the context as its `configurable`.

        Args:
            include: other keys of a config to include, e.g. `["tags", "metadata"]`.
        """
        return GraphDescription(self).json_config(self.get_context_jsonschema(), include)

    def get_graph(
        self, config: Config | None = None, *, xray: bool | int = False
    ) -> "DrawableGraph":
        """Return the graph as a drawing: Mermaid, ASCII, SVG, PNG, JSON.

        Args:
            config: ignored; accepted for LangGraph's programs.
            xray: whether to expand nodes that are compiled graphs, or whose function refers to
                one; a number: the levels to expand.
        """
        return GraphDescription(self).drawing(config, xray)

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

    # --- cached results of nodes ---

    async def aclear_cache(self, nodes: Sequence[str] | None = None) -> None:
        """Remove the cached results of nodes.

        Args:
            nodes: their names; default all nodes with a `cache_policy`.
        Raises:
            InvalidConfigError: the graph has no cache, or no such node.
        """
        cache = self._own_cache()
        names = self._cached_nodes() if nodes is None else list(nodes)
        for name in names:
            if name not in self.plan.nodes:
                raise InvalidConfigError(
                    f"graph {self.name!r} has no node {name!r}",
                    do=did_you_mean(name, self._cached_nodes() or list(self.nodes)),
                )
        policies = [(self.plan.nodes[name].cache, name) for name in names]
        spaces = [cache_namespace(p, self.graph_id, name) for p, name in policies if p is not None]
        await here_or_in_portal(cache.aclear, spaces)

    def clear_cache(self, nodes: Sequence[str] | None = None) -> None:
        """Blocking version of `aclear_cache`."""
        call = partial(self.aclear_cache, nodes)
        block_on("graph.aclear_cache", call, plain=self.plan.plain)

    def _cached_nodes(self) -> list[str]:
        return [node.name for node in self.plan.nodes.values() if node.cache is not None]

    def _own_cache(self) -> Cache:
        if self.cache is None:
            raise InvalidConfigError(
                f"No cache is set for graph {self.name!r}. Cannot clear cache.",
                do="pass cache= to compile(), e.g. InMemoryCache()",
            )
        return self.cache

    # --- LangChain's Runnables; see `runnable` ---

    # isinstance() reads `__class__` first: so any graph is a Runnable as soon as LangChain is
    # loaded, also one that was compiled before.
    @property
    def __class__(self) -> Any:
        BRIDGE.adopt_graphs(CompiledStateGraph)
        return type(self)

    @__class__.setter
    def __class__(self, kind: type) -> None:
        vars(object)["__class__"].__set__(self, kind)

    def __getattr__(self, name: str) -> Any:
        """Return a method that Runnables have and graphs lack, such as `with_retry`.

        Raises:
            AttributeError: Runnables have no such method, or LangChain is not installed.
        """
        return BRIDGE.borrowed(self, name)

    def as_runnable(self) -> Any:
        """Wrap the graph as a LangChain Runnable, whose `stream` yields one chunk: the output.

        In a chain, or as it is, a graph streams its updates.

        Raises:
            MissingExtraError: langchain-core is not installed.
        """

        def invoke(input: Any, config: Config) -> Any:
            return self.invoke(input, config)

        async def ainvoke(input: Any, config: Config) -> Any:
            return await self.ainvoke(input, config)

        return BRIDGE.as_runnable(invoke, ainvoke, self.name)

    def __call__(
        self, input: InputT | Command[Any] | None, config: Config | None = None
    ) -> ResultT:
        """Call `invoke`; LangChain takes a callable as the step of a chain."""
        return self.invoke(input, config)

    def __or__(self, step: Any) -> Any:
        """Make a chain that passes the output of this graph on to a step."""
        return BRIDGE.imported_runnable("graph | step").__or__(self, step)

    def __ror__(self, step: Any) -> Any:
        """Make a chain that passes the output of a step on to this graph."""
        return BRIDGE.imported_runnable("step | graph").__ror__(self, step)


BRIDGE.adopt_graphs(CompiledStateGraph)
show_methods_of(CompiledStateGraph)
