"""Reading and changing a compiled graph's threads from outside a run."""

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, cast

from actorgraph.api import config as configs
from actorgraph.api import state as states
from actorgraph.api.compiled import CompiledBase, Config
from actorgraph.errors import InvalidConfigError
from actorgraph.values.snapshot import StateSnapshot


class StateMethods(CompiledBase):
    """The methods that read and change a thread's state."""

    async def aget_state(self, config: Config, *, subgraphs: bool = False) -> StateSnapshot:
        """The state of a thread: the live view of its head, or the record of one checkpoint.

        Args:
            config: the thread; with a checkpoint_ns, a graph that a node of it runs.
            subgraphs: read the state of such graphs too, into `tasks[i].state`; without it
                that is the config to read it with.
        Returns: an empty snapshot for an unknown thread.
        Raises:
            SaverRequiredError: the graph has no checkpointer.
            CheckpointNotFoundError: the config names a checkpoint that doesn't exist.
        """
        at = self._target("get_state()", config)
        found = await states.read_state(at.host, at.codec, at.plan, at.address, config)
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
        config: Config,
        *,
        filter: Mapping[str, Any] | None = None,
        before: Config | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[StateSnapshot]:
        """The thread's checkpoints as snapshots, newest first.

        Args:
            filter: metadata that must be equal, e.g. `{"source": "loop"}`.
            before: a config; only checkpoints older than the one it names.
            limit: how many at most; default all.
        Raises:
            SaverRequiredError: the graph has no checkpointer.
        """
        at = self._target("get_state_history()", config)
        bound = configs.address_of(before, needs_thread=False).checkpoint if before else None
        return states.read_history(
            at.host,
            at.codec,
            at.plan,
            at.address,
            where=configs.where_of(filter),
            before=bound,
            limit=limit,
        )

    async def aupdate_state(
        self, config: Config, values: Any, as_node: str | None = None
    ) -> dict[str, Any]:
        """Change a thread's state as if a node had returned `values`.

        Args:
            config: the thread; with a checkpoint_id, a branch from that checkpoint.
            values: an update, folded by the same reducers as a node's.
            as_node: the node; its edges decide what runs next. Default the node that ran last,
                if that is clear; otherwise what was due stays due.
        Returns: a config that addresses the new checkpoint; it is durable.
        Raises:
            SaverRequiredError: the graph has no checkpointer.
            MissingNodeError, InvalidUpdateError: nothing was written.
            ConflictError: a run has the thread.
        """
        at = self._target("update_state()", config)
        if not at.declared:
            raise InvalidConfigError(
                f"Subgraph {at.address.namespace!r} not found in graph {self.name!r}",
                do="take the config from get_state(config, subgraphs=True).tasks[i].state.config",
            )
        return await states.write_update(
            at.host, at.codec, at.plan, at.address, values=values, as_node=as_node
        )

    async def aget_subgraphs(
        self, namespace: str | None = None, *, recurse: bool = False
    ) -> AsyncIterator[tuple[str, "StateMethods"]]:
        """The graphs that nodes run, as `(node names joined by "|", graph)`.

        Args:
            namespace: only the graph of that name. recurse: also the graphs inside of those.
        """
        for found in self.get_subgraphs(namespace, recurse=recurse):
            yield found

    def get_subgraphs(
        self, namespace: str | None = None, *, recurse: bool = False
    ) -> Iterator[tuple[str, "StateMethods"]]:
        """`aget_subgraphs`; it waits for nothing. Graphs that store nothing are left out."""
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
