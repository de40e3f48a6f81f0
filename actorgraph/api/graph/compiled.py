"""CompiledStateGraph: the compiled graph, with its sync API.

Its parts: `setup` (construction, base of the others), `run`, `state` and `describe`. Here are
blocking versions of their methods, changed copies, the cache, and its use as a Runnable.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal, Self, TypeVar, Unpack, cast, overload

from actorgraph.api import config as configs
from actorgraph.api.batches.batch_options import BatchOptions, KeyOf, WatchCounts
from actorgraph.api.batches.thread_batch import BlockingThreadBatch
from actorgraph.api.blocking import block_on as run_blocking
from actorgraph.api.blocking import read_on, refuse_in_loop
from actorgraph.api.graph.arguments import stores_of
from actorgraph.api.graph.describe import DescriptionMethods
from actorgraph.api.graph.setup import renamed
from actorgraph.api.graph.state import StateMethods
from actorgraph.api.options import (
    CallOptions,
    FlatRunOptions,
    ForkOptions,
    HistoryOptions,
    InvokeOptions,
    OtherMode,
    ThreadOptions,
    TimelineOptions,
    UpdateOptions,
    check_names,
    check_twin,
)
from actorgraph.api.pages import Pages
from actorgraph.api.savers.adapt import adapt_checkpointer
from actorgraph.bridging import BRIDGE
from actorgraph.errors import InvalidConfigError, did_you_mean
from actorgraph.errors.overrides import show_methods_of
from actorgraph.ports import Cache
from actorgraph.runtime.stepper import here_or_in_portal
from actorgraph.runtime.task.result_cache import cache_namespace
from actorgraph.values.checkpoint import ResumeTarget
from actorgraph.values.commands import Command, GraphOutput
from actorgraph.values.configs import Config, merge_configs
from actorgraph.values.policies import Durability, DurabilityMode, StreamMode
from actorgraph.values.schema_types import ContextT, InputT, OutputT, ResultT, StateT, ValuesT
from actorgraph.values.state_snapshot import StateSnapshot
from actorgraph.values.stream_items import StreamVersion
from actorgraph.values.timeline import TimelineStep

T = TypeVar("T")
_COPIED = ("name", "checkpointer", "store", "stores", "config")


class CompiledStateGraph(
    StateMethods[StateT, ContextT, InputT, OutputT, ValuesT, ResultT],
    DescriptionMethods[StateT, ContextT, InputT, OutputT, ValuesT, ResultT],
):
    """A compiled graph: immutable, shared by any number of runs, threads and event loops.

    Made by `StateGraph.compile()`. With a checkpointer every call takes
    `config={"configurable": {"thread_id": ...}}`; other keys of `config`: `recursion_limit`
    (supersteps, default 10007), `max_concurrency` (tasks at once, default unbounded),
    `max_unsaved_steps` (async durability, default 16), `metadata` (stored with checkpoints).
    """

    # --- sync API ---

    @overload
    def invoke(
        self,
        input: InputT | Command[Any] | None,
        config: Config | None = None,
        *,
        stream_mode: Literal["values"] = "values",
        version: Literal["v1"] = "v1",
        **options: Unpack[FlatRunOptions[ContextT]],
    ) -> ResultT: ...
    @overload
    def invoke(
        self,
        input: InputT | Command[Any] | None,
        config: Config | None = None,
        *,
        stream_mode: Literal["values"] = "values",
        version: Literal["v2"],
        **options: Unpack[FlatRunOptions[ContextT]],
    ) -> GraphOutput[OutputT]: ...
    @overload
    def invoke(
        self,
        input: InputT | Command[Any] | None,
        config: Config | None = None,
        *,
        stream_mode: OtherMode | Sequence[StreamMode],
        version: StreamVersion = "v1",
        **options: Unpack[InvokeOptions[ContextT]],
    ) -> list[Any]: ...
    @overload
    def invoke(
        self,
        input: InputT | Command[Any] | None,
        config: Config | None = None,
        *,
        stream_mode: StreamMode | Sequence[StreamMode] = "values",
        version: StreamVersion = "v1",
        **options: Unpack[InvokeOptions[ContextT]],
    ) -> Any: ...
    def invoke(
        self,
        input: Any,
        config: Config | None = None,
        *,
        stream_mode: StreamMode | Sequence[StreamMode] = "values",
        version: StreamVersion = "v1",
        **options: Unpack[InvokeOptions[Any]],
    ) -> Any:
        """Blocking version of `ainvoke`, with the same options. Refused inside an event loop."""
        check_names("invoke", options)
        graph = self.blocking_form()

        def begin() -> Awaitable[Any]:
            # Not by `ainvoke`, which a program may have wrapped: it would see the call twice.
            return graph.invocation(input, config, stream_mode, version, options)()

        return run_blocking("graph.ainvoke", begin, plain=graph.plan.plain)

    def map_threads(
        self,
        inputs: Iterable[InputT],
        *,
        key: KeyOf | None = None,
        progress: bool | WatchCounts = False,
        **options: Unpack[BatchOptions],
    ) -> BlockingThreadBatch[ResultT]:
        """Blocking version of `amap_threads`, with the same options. Refused in an event loop."""
        refuse_in_loop("map_threads()", "async for result in graph.amap_threads(...)")
        return BlockingThreadBatch(self.amap_threads(inputs, key=key, progress=progress, **options))

    @overload
    def get_state(
        self, config: Config, checkpoint_id: None = None, *, subgraphs: bool = False
    ) -> StateSnapshot[ValuesT]: ...
    @overload
    def get_state(
        self, config: str, checkpoint_id: str | None = None, *, subgraphs: bool = False
    ) -> StateSnapshot[ValuesT] | None: ...
    @overload
    def get_state(
        self, *, thread_id: str, checkpoint_id: str | None = None, subgraphs: bool = False
    ) -> StateSnapshot[ValuesT] | None: ...
    def get_state(
        self,
        config: Any = None,
        checkpoint_id: str | None = None,
        *,
        thread_id: str | None = None,
        subgraphs: bool = False,
    ) -> Any:
        """Blocking version of `aget_state`.

        It works inside an event loop too, if the saver keeps checkpoints in memory or in files and
        was not opened in that loop. It blocks the loop while it reads.
        """
        call: Any = self.aget_state
        read = partial(call, config, checkpoint_id, thread_id=thread_id, subgraphs=subgraphs)
        return self._read("aget_state", read)

    def get_state_history(
        self, config: Config | str | None = None, **options: Unpack[HistoryOptions]
    ) -> Iterator[StateSnapshot[ValuesT]]:
        """Blocking version of `aget_state_history`, with the same options.

        It blocks at the call and whenever a page is read; inside an event loop as `get_state`.
        """
        check_twin("get_state_history", self.aget_state_history, options)

        async def begun() -> tuple[Pages[StateSnapshot[ValuesT]], list[StateSnapshot[ValuesT]]]:
            history = self.aget_state_history(config, **options)
            pages = cast("Pages[StateSnapshot[ValuesT]]", history)
            return pages, await pages.page()

        pages, first = self._read("aget_state_history", begun)

        def rest() -> Iterator[StateSnapshot[ValuesT]]:
            page = first
            while page:
                yield from page
                page = self._read("aget_state_history", pages.page)

        return rest()

    def get_timeline(
        self, config: Config | str | None = None, **options: Unpack[TimelineOptions]
    ) -> list[TimelineStep]:
        """Blocking version of `aget_timeline`, with the same options; as `get_state`."""
        check_twin("get_timeline", self.aget_timeline, options)
        return self._read("aget_timeline", partial(self.aget_timeline, config, **options))

    def _read(self, name: str, function: Callable[[], Awaitable[T]]) -> T:
        return read_on(f"graph.{name}", function, self.checkpointer, plain=self.plan.plain)

    def update_state(
        self,
        config: Config | str | None = None,
        values: Any = None,
        as_node: str | None = None,
        task_id: str | None = None,
        **options: Unpack[UpdateOptions],
    ) -> dict[str, Any]:
        """Blocking version of `aupdate_state`, with the same options."""
        check_twin("update_state", self.aupdate_state, options)
        return self.block_on(
            "aupdate_state",
            lambda: self.aupdate_state(config, values, as_node, task_id, **options),
        )

    def bulk_update_state(
        self,
        config: Config | str | None = None,
        supersteps: Sequence[Any] = (),
        **options: Unpack[ThreadOptions],
    ) -> dict[str, Any]:
        """Blocking version of `abulk_update_state`, with the same options."""
        check_twin("bulk_update_state", self.abulk_update_state, options)
        return self.block_on(
            "abulk_update_state", lambda: self.abulk_update_state(config, supersteps, **options)
        )

    def fork_state(
        self,
        source: Config | str | None = None,
        target_thread_id: str | None = None,
        **options: Unpack[ForkOptions],
    ) -> dict[str, Any]:
        """Blocking version of `afork_state`, with the same options."""
        check_twin("fork_state", self.afork_state, options)
        return self.block_on(
            "afork_state", lambda: self.afork_state(source, target_thread_id, **options)
        )

    def resume_from(
        self,
        thread: Config | str,
        target: ResumeTarget,
        command: Command[Any] | None = None,
        **options: Unpack[CallOptions[ContextT]],
    ) -> ResultT:
        """Blocking version of `aresume_from`, with the same options."""
        check_names("resume_from", options)
        return self.block_on(
            "aresume_from", lambda: self.aresume_from(thread, target, command, **options)
        )

    def resume(
        self,
        thread: Config | str,
        command: Command[Any] | None = None,
        answers: Mapping[str, Any] | None = None,
        **options: Unpack[CallOptions[ContextT]],
    ) -> ResultT:
        """Blocking version of `aresume`, with the same options."""
        check_names("resume", options)
        return self.block_on("aresume", lambda: self.aresume(thread, command, answers, **options))

    def retry(self, thread: Config | str, **options: Unpack[CallOptions[ContextT]]) -> ResultT:
        """Blocking version of `aretry`, with the same options."""
        check_names("retry", options)
        return self.block_on("aretry", lambda: self.aretry(thread, **options))

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
        self.block_on("aclear_cache", lambda: self.aclear_cache(nodes))

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
