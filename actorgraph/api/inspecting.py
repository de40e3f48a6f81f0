"""Read and change a thread's state from outside a run; resume, retry or fork it."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, cast, overload

from actorgraph.api import config as configs
from actorgraph.api.addresses import config_of
from actorgraph.api.compiled import AddressedGraph, CompiledBase, Config
from actorgraph.api.history import read_history
from actorgraph.api.pages import Pages
from actorgraph.api.state import read_state
from actorgraph.api.updating import UpdateAuthor, write_updates
from actorgraph.errors import CheckpointNotFoundError, InvalidConfigError
from actorgraph.runtime.handle import NO_RESOURCES
from actorgraph.values.commands import StateUpdate
from actorgraph.values.snapshot import StateSnapshot


class StateMethods(CompiledBase):
    """`aget_state`, `aget_state_history`, `aupdate_state`, `aget_subgraphs`."""

    @overload
    async def aget_state(
        self, config: Config, checkpoint_id: None = None, *, subgraphs: bool = False
    ) -> StateSnapshot: ...
    @overload
    async def aget_state(
        self, config: str, checkpoint_id: str | None = None, *, subgraphs: bool = False
    ) -> StateSnapshot | None: ...
    @overload
    async def aget_state(
        self, *, thread_id: str, checkpoint_id: str | None = None, subgraphs: bool = False
    ) -> StateSnapshot | None: ...
    async def aget_state(
        self,
        config: Config | str | None = None,
        checkpoint_id: str | None = None,
        *,
        thread_id: str | None = None,
        subgraphs: bool = False,
    ) -> StateSnapshot | None:
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
        by_config = isinstance(config, Mapping)
        config = config_of(config, thread_id, checkpoint_id)
        at = self._target("get_state()", config)
        try:
            found = await read_state(at.host, at.codec, at.plan, at.address, config)
        except CheckpointNotFoundError:
            if by_config:
                raise
            return None
        if not by_config and found.created_at is None:
            return None
        return await self._with_states_below(found) if subgraphs else found

    async def _with_states_below(self, found: StateSnapshot) -> StateSnapshot:
        tasks = [
            task._replace(state=await self.aget_state(task.state, subgraphs=True))
            if task.state
            else task
            for task in found.tasks
        ]
        return found._replace(tasks=tuple(tasks))

    def aget_state_history(
        self,
        config: Config | str | None = None,
        *,
        thread_id: str | None = None,
        filter: Mapping[str, Any] | None = None,
        before: Config | str | None = None,
        limit: int | None = None,
        lineage: bool = False,
    ) -> AsyncIterator[StateSnapshot]:
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
        config = config_of(config, thread_id)
        at = self._target("get_state_history()", config)
        return read_history(
            at,
            where=configs.where_of(filter),
            before=configs.before_of(before),
            limit=configs.limit_of(limit),
            lineage=lineage,
        )

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
        at = self._update_target("update_state()", config)
        update = StateUpdate(values, as_node, task_id)
        return await write_updates(at, [[update]], self._author_of(config, strict=strict))

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
            InvalidConfigError: there is no superstep, or an empty one.
            Exception: as `aupdate_state`.
        """
        config = config_of(config, thread_id, checkpoint_id)
        at = self._update_target("bulk_update_state()", config)
        return await write_updates(at, supersteps, self._author_of(config))

    def _author_of(self, config: Config, *, strict: bool = False) -> UpdateAuthor:
        supplies = NO_RESOURCES.below(None, self.store, self.stores)
        return UpdateAuthor(dict(self._bound(config) or {}), supplies, strict)

    def _update_target(self, what: str, config: Config) -> AddressedGraph:
        at = self._target(what, config)
        if not at.declared:
            raise InvalidConfigError(
                f"Subgraph {at.address.namespace!r} not found in graph {self.name!r}",
                do="take the config from get_state(config, subgraphs=True).tasks[i].state.config",
            )
        return at

    def aget_subgraphs(
        self, namespace: str | None = None, *, recurse: bool = False
    ) -> AsyncIterator[tuple[str, "StateMethods"]]:
        """Iterate over subgraphs as `(node names joined by "|", graph)`.

        Args:
            namespace: only the subgraph with this name.
            recurse: also subgraphs of subgraphs.
        """
        found = self.get_subgraphs(namespace, recurse=recurse)

        async def page() -> list[tuple[str, StateMethods]]:
            return list(found)

        return Pages(page)

    def get_subgraphs(
        self, namespace: str | None = None, *, recurse: bool = False
    ) -> Iterator[tuple[str, "StateMethods"]]:
        """Sync version of `aget_subgraphs`. Subgraphs that store nothing are left out."""
        for name, found in self.subgraphs.items():
            if found.checkpointer is False:
                continue
            graph = cast("StateMethods", found)
            if namespace in (None, name):
                yield name, graph
            if recurse and (namespace is None or namespace.startswith(f"{name}|")):
                inner = namespace and namespace.removeprefix(f"{name}|")
                for below, deeper in graph.get_subgraphs(inner, recurse=True):
                    yield f"{name}|{below}", deeper
