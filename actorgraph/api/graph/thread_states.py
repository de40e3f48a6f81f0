"""The threads of a compiled graph: their state is read, changed or copied, and they are resumed.

A run is resumed by the graph's own methods, which a program may have replaced.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, cast

import msgspec

from actorgraph.api import config as configs
from actorgraph.api.config import config_of
from actorgraph.api.graph.addressed import (
    AddressedGraph,
    at_its_rows,
    pages_at,
    to_be_changed,
)
from actorgraph.api.graph.checked_answers import checked_command
from actorgraph.api.graph.editing import (
    ForkTarget,
    UpdateAuthor,
    address_of_copy,
    copy_checkpoint,
    load_source,
    subgraph_states_before,
    write_updates,
)
from actorgraph.api.graph.graph_settings import GraphSettings
from actorgraph.api.graph.run_setup import bound_config, locate
from actorgraph.api.graph.snapshots import read_history, read_state
from actorgraph.api.graph.timelines import read_timeline
from actorgraph.api.pages import Pages
from actorgraph.codec import Codec
from actorgraph.errors import CheckpointNotFoundError, EmptyInputError
from actorgraph.ports import Saver
from actorgraph.runtime.saver.hosting import host_of
from actorgraph.runtime.task.runtime import NO_RESOURCES
from actorgraph.values.checkpoint import Latest
from actorgraph.values.commands import Command
from actorgraph.values.commits import Commit
from actorgraph.values.configs import Config
from actorgraph.values.ids import as_text
from actorgraph.values.state_snapshot import StateSnapshot
from actorgraph.values.timeline import TimelineStep

Before = Config | str | None


class ThreadStates(msgspec.Struct, frozen=True):
    """Reads and changes a graph's threads.

    Attributes:
        graph: the compiled graph.
    """

    graph: GraphSettings

    async def state(
        self,
        config: Config | str | None,
        thread_id: str | None,
        checkpoint_id: str | None,
        *,
        subgraphs: bool,
    ) -> StateSnapshot | None:
        """See `CompiledStateGraph.aget_state`."""
        by_config = isinstance(config, Mapping)
        config = config_of(config, thread_id, checkpoint_id)
        at = await at_its_rows(locate(self.graph, "get_state()", config))
        try:
            found = await read_state(at, config)
        except CheckpointNotFoundError:
            if by_config:
                raise
            return None
        if not by_config and found.created_at is None:
            return None
        return await self._with_states_below(found) if subgraphs else found

    async def _with_states_below(self, found: StateSnapshot) -> StateSnapshot:
        program: Any = self.graph
        tasks = [
            task._replace(state=await program.aget_state(task.state, subgraphs=True))
            if task.state
            else task
            for task in found.tasks
        ]
        return found._replace(tasks=tuple(tasks))

    def history(
        self,
        config: Config,
        *,
        where: Mapping[str, Any] | None,
        before: Before,
        limit: int | None,
        lineage: bool,
    ) -> Pages[StateSnapshot]:
        """See `CompiledStateGraph.aget_state_history`."""
        at = locate(self.graph, "get_state_history()", config)
        read = partial(
            read_history,
            where=configs.where_of(where),
            before=configs.before_of(before),
            limit=configs.limit_of(limit),
            lineage=lineage,
        )
        return pages_at(at, read)

    async def timeline(
        self, config: Config, *, before: Before, limit: int | None
    ) -> list[TimelineStep]:
        """See `CompiledStateGraph.aget_timeline`."""
        at = await at_its_rows(locate(self.graph, "get_timeline()", config))
        older, most = configs.before_of(before), configs.limit_of(limit)
        return await read_timeline(at.host, at.codec, at.address, before=older, limit=most)

    async def update(
        self, method: str, config: Config, supersteps: Sequence[Any], *, strict: bool = False
    ) -> dict[str, Any]:
        """See `CompiledStateGraph.aupdate_state` and `abulk_update_state`.

        Args:
            method: the caller's name, for errors.
        """
        at = await to_be_changed(locate(self.graph, method, config))
        supplies = NO_RESOURCES.below(None, self.graph.store, self.graph.stores)
        author = UpdateAuthor(dict(bound_config(self.graph, config) or {}), supplies, strict)
        return await write_updates(at, supersteps, author)

    async def fork(
        self, source: Config, target_thread_id: str | None, saver: Saver | None
    ) -> dict[str, Any]:
        """See `CompiledStateGraph.afork_state`."""
        at = await at_its_rows(locate(self.graph, "fork_state()", source))
        target = {"configurable": {"thread_id": target_thread_id}}
        target_id = configs.address_of(target, needs_thread=True).thread_id
        found = await load_source(at)
        host = at.host if saver is None else host_of(saver)
        commits: list[Commit] = []
        sequence = found.restored.sequence if found.restored else 0
        for row in await subgraph_states_before(at, sequence):
            place = {"thread_id": at.address.thread_id, "checkpoint_ns": row.namespace}
            config: Config = {"configurable": {**place, "checkpoint_id": as_text(row.row.id)}}
            inner = locate(self.graph, "fork_state()", config)
            if inner.declared:
                to = ForkTarget(target_id, host, self._codec_at(inner, saver))
                commits.append(await copy_checkpoint(inner, await load_source(inner), to))
        # The root is stored last, as in the source, where subgraphs' states are older than it.
        to = ForkTarget(target_id, host, self._codec_at(at, saver))
        commits.append(await copy_checkpoint(at, found, to))
        await host.writer.store(*commits)
        return address_of_copy(commits[-1])

    def _codec_at(self, at: AddressedGraph, saver: Saver | None) -> Codec:
        """Return the codec for the copy: that of the given saver, or of the source."""
        own = getattr(saver, "codec", None)
        return at.codec if own is None else cast("Codec", own).with_types(self.graph.stored_types)

    def subgraphs(self, namespace: str | None, *, recurse: bool) -> Iterator[tuple[str, Any]]:
        """See `CompiledStateGraph.get_subgraphs`."""
        for name, found in self.graph.subgraphs.items():
            if found.checkpointer is False:
                continue
            program: Any = found
            if namespace in (None, name):
                yield name, program
            if recurse and (namespace is None or namespace.startswith(f"{name}|")):
                inner = namespace and namespace.removeprefix(f"{name}|")
                for below, deeper in program.get_subgraphs(inner, recurse=True):
                    yield f"{name}|{below}", deeper

    async def resume(
        self,
        thread: Config | str,
        command: Command[Any] | None,
        answers: Mapping[str, Any] | None,
        options: dict[str, Any],
    ) -> Any:
        """See `CompiledStateGraph.aresume`."""
        program: Any = self.graph
        if answers is not None:
            command = await checked_command(program, thread, command, answers, options)
        return await program.aresume_from(thread, Latest, command, **options)

    async def retry(self, thread: Config | str, options: dict[str, Any]) -> Any:
        """See `CompiledStateGraph.aretry`."""
        program: Any = self.graph
        config = config_of(thread)
        found: StateSnapshot = await program.aget_state(config)
        if not found.next:
            raise EmptyInputError(
                "there is nothing to retry: the thread has no pending task",
                do="read get_state(thread).failed_node; pass an input to start again",
            )
        if found.is_stuck:
            config = await program.aupdate_state(config, None, "__copy__")
        return await program.ainvoke(None, config, **options)
