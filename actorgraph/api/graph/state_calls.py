"""The methods by which a compiled graph's threads are read, changed and copied.

`ThreadStates` does the work; here are the signatures, the documentation, and the blocking versions.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar, Unpack, cast, overload

from actorgraph.api.blocking import block_on, read_on
from actorgraph.api.config import config_of
from actorgraph.api.graph.addressed import AddressedGraph
from actorgraph.api.graph.graph_settings import GraphSettings
from actorgraph.api.graph.run_setup import locate
from actorgraph.api.graph.thread_states import ThreadStates
from actorgraph.api.graph.timelines import STEPS
from actorgraph.api.options import (
    ForkOptions,
    HistoryOptions,
    ThreadOptions,
    TimelineOptions,
    UpdateOptions,
    check_twin,
)
from actorgraph.api.pages import Pages
from actorgraph.ports import Saver
from actorgraph.values.commands import StateUpdate
from actorgraph.values.configs import Config
from actorgraph.values.schema_types import ContextT, InputT, OutputT, ResultT, StateT, ValuesT
from actorgraph.values.state_snapshot import StateSnapshot
from actorgraph.values.timeline import TimelineStep

T = TypeVar("T")


class StateCalls(GraphSettings[StateT, ContextT, InputT, OutputT, ValuesT, ResultT]):
    """Read a thread's state and history, change it, copy it, and find subgraphs."""

    @overload
    async def aget_state(
        self, config: Config, checkpoint_id: None = None, *, subgraphs: bool = False
    ) -> StateSnapshot[ValuesT]: ...
    @overload
    async def aget_state(
        self, config: str, checkpoint_id: str | None = None, *, subgraphs: bool = False
    ) -> StateSnapshot[ValuesT] | None: ...
    @overload
    async def aget_state(
        self, *, thread_id: str, checkpoint_id: str | None = None, subgraphs: bool = False
    ) -> StateSnapshot[ValuesT] | None: ...
    async def aget_state(
        self,
        config: Config | str | None = None,
        checkpoint_id: str | None = None,
        *,
        thread_id: str | None = None,
        subgraphs: bool = False,
    ) -> StateSnapshot[ValuesT] | None:
        """Return the state of a thread as it is now, or as one checkpoint recorded it.

        Args:
            config: the thread: its config or its id; a config with a checkpoint_ns addresses a
                subgraph of it.
            checkpoint_id: of one checkpoint; default the newest, with its pending writes.
            thread_id: the thread, instead of `config`.
            subgraphs: also read the state of subgraphs, into `tasks[i].state`; without it that
                is the config to read it with.
        Returns: a snapshot. For an unknown thread an empty one if a config was given, None if an
            id was given; None also for an unknown checkpoint of an id.
        Raises:
            SaverRequiredError: the graph has no checkpointer.
            CheckpointNotFoundError: the checkpoint in `config` doesn't exist.
        """
        read = ThreadStates(self).state
        return await read(config, thread_id, checkpoint_id, subgraphs=subgraphs)

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

    def aget_state_history(
        self,
        config: Config | str | None = None,
        *,
        thread_id: str | None = None,
        filter: Mapping[str, Any] | None = None,
        before: Config | str | None = None,
        limit: int | None = None,
        lineage: bool = False,
    ) -> AsyncIterator[StateSnapshot[ValuesT]]:
        """Iterate over the thread's checkpoints as snapshots, newest first, of all branches.

        Args:
            config: the thread: its config or its id. A config with a checkpoint_id lists that
                checkpoint alone, as LangGraph does.
            thread_id: the thread, instead of `config`.
            filter: metadata that must be equal, e.g. `{"source": "loop"}`.
            before: a config or a checkpoint id; only checkpoints older than that one.
            limit: the most snapshots; default all.
            lineage: list only the newest checkpoint, or the one in `config`, and its ancestors.
        Raises:
            SaverRequiredError: the graph has no checkpointer.
            InvalidConfigError: an argument is invalid.
        """
        return ThreadStates(self).history(
            config_of(config, thread_id),
            where=filter,
            before=before,
            limit=limit,
            lineage=lineage,
        )

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

    async def aget_timeline(
        self,
        config: Config | str | None = None,
        *,
        thread_id: str | None = None,
        before: Config | str | None = None,
        limit: int | None = STEPS,
    ) -> list[TimelineStep]:
        """Return a thread's supersteps, newest first, with the attempts of their tasks.

        Args:
            config: the thread: its config or its id. With a checkpoint_ns a subgraph of it, with a
                checkpoint_id only the superstep that follows that checkpoint.
            thread_id: the thread, instead of `config`.
            before: a config or a checkpoint id; only steps of older checkpoints.
            limit: the most checkpoints to read; None for all.
        Returns: steps; empty for an unknown thread.
        Raises:
            SaverRequiredError: the graph has no checkpointer.
            InvalidConfigError: an argument is invalid.
        """
        config = config_of(config, thread_id)
        return await ThreadStates(self).timeline(config, before=before, limit=limit)

    def get_timeline(
        self, config: Config | str | None = None, **options: Unpack[TimelineOptions]
    ) -> list[TimelineStep]:
        """Blocking version of `aget_timeline`, with the same options; as `get_state`."""
        check_twin("get_timeline", self.aget_timeline, options)
        return self._read("aget_timeline", partial(self.aget_timeline, config, **options))

    def _read(self, name: str, function: Callable[[], Awaitable[T]]) -> T:
        return read_on(f"graph.{name}", function, self.checkpointer, plain=self.plan.plain)

    async def aupdate_state(
        self,
        config: Config | str | None = None,
        values: Any = None,
        as_node: str | None = None,
        task_id: str | None = None,
        *,
        thread_id: str | None = None,
        checkpoint_id: str | None = None,
        strict: bool = False,
    ) -> dict[str, Any]:
        """Change a thread's state as if a node had returned `values`.

        Args:
            config: the thread: its config or its id; with a checkpoint_id, a branch from there.
            values: an update, applied with the same reducers as a node's; None writes nothing.
            as_node: the node; its edges decide what runs next, other pending tasks are dropped.
                Default the node that ran last, if that is unambiguous; else pending tasks stay.
                `"__end__"` with None drops all pending tasks, `"__input__"` applies an input,
                `"__copy__"` makes a sibling of the checkpoint.
            task_id: the pending task whose result the update is, as the history shows it.
            thread_id: the thread, instead of `config`.
            checkpoint_id: the checkpoint, instead of one in `config`.
            strict: refuse an update if it is not known which node it is from.
        Returns: a config that addresses the new checkpoint, which is durable.
        Raises:
            SaverRequiredError: the graph has no checkpointer.
            MissingNodeError, InvalidUpdateError: nothing was written.
            ConflictError: a run holds the thread.
        """
        config = config_of(config, thread_id, checkpoint_id)
        supersteps = [[StateUpdate(values, as_node, task_id)]]
        update = ThreadStates(self).update
        return await update("update_state()", config, supersteps, strict=strict)

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
        call = partial(self.aupdate_state, config, values, as_node, task_id, **options)
        return block_on("graph.aupdate_state", call, plain=self.plan.plain)

    async def abulk_update_state(
        self,
        config: Config | str | None = None,
        supersteps: Sequence[Any] = (),
        *,
        thread_id: str | None = None,
        checkpoint_id: str | None = None,
    ) -> dict[str, Any]:
        """Change a thread's state by several supersteps of updates; all are stored, or none.

        Args:
            config: as in `aupdate_state`.
            supersteps: lists of `StateUpdate` or `(values, as_node, task_id)`; each list makes
                one checkpoint. In a flat list each update is a superstep of its own.
            thread_id: as in `aupdate_state`.
            checkpoint_id: as in `aupdate_state`.
        Returns: a config that addresses the last new checkpoint.
        Raises:
            InvalidConfigError: the list of supersteps is empty, or one of them is.
            Exception: as `aupdate_state`.
        """
        config = config_of(config, thread_id, checkpoint_id)
        return await ThreadStates(self).update("bulk_update_state()", config, supersteps)

    def bulk_update_state(
        self,
        config: Config | str | None = None,
        supersteps: Sequence[Any] = (),
        **options: Unpack[ThreadOptions],
    ) -> dict[str, Any]:
        """Blocking version of `abulk_update_state`, with the same options."""
        check_twin("bulk_update_state", self.abulk_update_state, options)
        call = partial(self.abulk_update_state, config, supersteps, **options)
        return block_on("graph.abulk_update_state", call, plain=self.plan.plain)

    async def afork_state(
        self,
        source: Config | str | None = None,
        target_thread_id: str | None = None,
        *,
        thread_id: str | None = None,
        checkpoint_id: str | None = None,
        saver: Saver | None = None,
    ) -> dict[str, Any]:
        """Copy a checkpoint's state to a new thread; its pending tasks are pending there too.

        The state that stateful subgraphs had by then is copied along. A subgraph that was in the
        middle of a run starts again, as its task does.

        Args:
            source: the thread, or one of its checkpoints: a config or an id.
            target_thread_id: a thread that has no checkpoint.
            thread_id: the source thread, instead of `source`.
            checkpoint_id: the source checkpoint, instead of one in `source`.
            saver: where to store the new thread, e.g. that of another compiled graph; default
                the graph's own.
        Returns: a config that addresses the new thread's first checkpoint: it has no parent, and
            `metadata["forked_from"]` holds its origin. The source stays as it is.
        Raises:
            SaverRequiredError: the graph has no checkpointer.
            CheckpointNotFoundError: the source doesn't exist.
            ConflictError: the target has checkpoints.
        """
        source = config_of(source, thread_id, checkpoint_id)
        return await ThreadStates(self).fork(source, target_thread_id, saver)

    def fork_state(
        self,
        source: Config | str | None = None,
        target_thread_id: str | None = None,
        **options: Unpack[ForkOptions],
    ) -> dict[str, Any]:
        """Blocking version of `afork_state`, with the same options."""
        check_twin("fork_state", self.afork_state, options)
        call = partial(self.afork_state, source, target_thread_id, **options)
        return block_on("graph.afork_state", call, plain=self.plan.plain)

    def aget_subgraphs(
        self, namespace: str | None = None, *, recurse: bool = False
    ) -> AsyncIterator[tuple[str, "StateCalls"]]:
        """Iterate over subgraphs as `(node names joined by "|", graph)`.

        Args:
            namespace: only the subgraph with this name.
            recurse: also subgraphs of subgraphs.
        """
        found = self.get_subgraphs(namespace, recurse=recurse)

        async def page() -> list[tuple[str, StateCalls]]:
            return list(found)

        return Pages(page)

    def get_subgraphs(
        self, namespace: str | None = None, *, recurse: bool = False
    ) -> Iterator[tuple[str, "StateCalls"]]:
        """Sync version of `aget_subgraphs`. Subgraphs that store nothing are left out."""
        return ThreadStates(self).subgraphs(namespace, recurse=recurse)

    def locate(self, method: str, config: Config) -> AddressedGraph:
        """Return the thread, checkpoint and graph that a config addresses from outside a run.

        For the package's own use; see `locate`.
        """
        return locate(self, method, config)
