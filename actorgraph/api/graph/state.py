"""Read and change a thread's state from outside a run; resume, retry or fork it.

The functions below the class read snapshots: one checkpoint, or the history, newest first, a page
at a time.
"""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Unpack, cast, overload

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
from actorgraph.api.graph.invoke import RunMethods
from actorgraph.api.graph.timelines import STEPS, read_timeline
from actorgraph.api.options import CallOptions, check_names
from actorgraph.api.pages import Pages
from actorgraph.codec import Codec
from actorgraph.codec.records import decode_metadata, encode_json
from actorgraph.codec.restore import ParentWrites, restore
from actorgraph.errors import CheckpointNotFoundError, EmptyInputError
from actorgraph.ports import Saver
from actorgraph.runtime.run.start import load
from actorgraph.runtime.saver.hosting import host_of
from actorgraph.runtime.saver.thread_runs import works_on
from actorgraph.runtime.task.runtime import NO_RESOURCES
from actorgraph.superstep.snapshot import (
    empty_snapshot,
    snapshot,
    unsaved_snapshot,
    with_late_writes,
)
from actorgraph.values.checkpoint import Latest, Restored, ResumeTarget
from actorgraph.values.commands import Command, StateUpdate
from actorgraph.values.commits import (
    Commit,
    ListCheckpoints,
    LoadCheckpoint,
    Loaded,
    StoredCheckpoint,
)
from actorgraph.values.configs import Config
from actorgraph.values.ids import as_text
from actorgraph.values.schema_types import ContextT, InputT, OutputT, ResultT, StateT, ValuesT
from actorgraph.values.state_snapshot import StateSnapshot
from actorgraph.values.timeline import TimelineStep


class StateMethods(RunMethods[StateT, ContextT, InputT, OutputT, ValuesT, ResultT]):
    """Snapshots, history, updates and subgraphs; resuming, retrying and forking a thread."""

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
        by_config = isinstance(config, Mapping)
        config = config_of(config, thread_id, checkpoint_id)
        at = await at_its_rows(self.locate("get_state()", config))
        try:
            found = await read_state(at, config)
        except CheckpointNotFoundError:
            if by_config:
                raise
            return None
        if not by_config and found.created_at is None:
            return None
        return await self._with_states_below(found) if subgraphs else found

    async def _with_states_below(self, found: StateSnapshot[ValuesT]) -> StateSnapshot[ValuesT]:
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
        config = config_of(config, thread_id)
        at = self.locate("get_state_history()", config)
        read = partial(
            read_history,
            where=configs.where_of(filter),
            before=configs.before_of(before),
            limit=configs.limit_of(limit),
            lineage=lineage,
        )
        return pages_at(at, read)

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
        at = await at_its_rows(self.locate("get_timeline()", config_of(config, thread_id)))
        older, most = configs.before_of(before), configs.limit_of(limit)
        return await read_timeline(at, before=older, limit=most)

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
        at = await to_be_changed(self.locate("update_state()", config))
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
            InvalidConfigError: the list of supersteps is empty, or one of them is.
            Exception: as `aupdate_state`.
        """
        config = config_of(config, thread_id, checkpoint_id)
        at = await to_be_changed(self.locate("bulk_update_state()", config))
        return await write_updates(at, supersteps, self._author_of(config))

    def _author_of(self, config: Config, *, strict: bool = False) -> UpdateAuthor:
        supplies = NO_RESOURCES.below(None, self.store, self.stores)
        return UpdateAuthor(dict(self._bound(config) or {}), supplies, strict)

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

    async def aresume_from(
        self,
        thread: Config | str,
        target: ResumeTarget,
        command: Command[Any] | None = None,
        **options: Unpack[CallOptions[ContextT]],
    ) -> ResultT:
        """Resume a thread from a checkpoint; from any but the newest, on a branch.

        Args:
            thread: its id or config.
            target: `Latest` or `ResumeTarget.checkpoint(id)`.
            command: an answer, an update or a route; None for none.
            options: as for `ainvoke`.
        Returns: as `ainvoke`.
        Raises: as `ainvoke`.
        """
        check_names("aresume_from", options)
        return await self.ainvoke(command, config_of(thread, None, target.checkpoint_id), **options)

    async def aresume(
        self,
        thread: Config | str,
        command: Command[Any] | None = None,
        answers: Mapping[str, Any] | None = None,
        **options: Unpack[CallOptions[ContextT]],
    ) -> ResultT:
        """Resume a thread's newest checkpoint as `aresume_from`; `answers` by id are checked."""
        check_names("aresume", options)
        if answers is not None:
            command = await checked_command(self, thread, command, answers, options)
        return await self.aresume_from(thread, Latest, command, **options)

    async def aretry(
        self, thread: Config | str, **options: Unpack[CallOptions[ContextT]]
    ) -> ResultT:
        """Run a failed thread's unfinished tasks again; finished ones are kept.

        If all have finished and folding their writes failed, all of them run again, on a copy of
        the checkpoint: nothing else could change the outcome. To change the state first, use
        `aupdate_state` and then this or `ainvoke(None, ...)`.

        Args:
            thread: its id or config.
            options: as for `ainvoke`.
        Raises:
            EmptyInputError: the thread has no pending task.
            Exception: as `ainvoke`.
        """
        check_names("aretry", options)
        found = await self.aget_state(config := config_of(thread))
        if not found.next:
            raise EmptyInputError(
                "there is nothing to retry: the thread has no pending task",
                do="read get_state(thread).failed_node; pass an input to start again",
            )
        if found.is_stuck:
            config = await self.aupdate_state(config, None, "__copy__")
        return await self.ainvoke(None, config, **options)

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
        at = self.locate("fork_state()", config_of(source, thread_id, checkpoint_id))
        at = await at_its_rows(at)
        target = {"configurable": {"thread_id": target_thread_id}}
        target_id = configs.address_of(target, needs_thread=True).thread_id
        found = await load_source(at)
        host = at.host if saver is None else host_of(saver)
        commits: list[Commit] = []
        sequence = found.restored.sequence if found.restored else 0
        for row in await subgraph_states_before(at, sequence):
            place = {"thread_id": at.address.thread_id, "checkpoint_ns": row.namespace}
            inner = self.locate(
                "fork_state()", {"configurable": {**place, "checkpoint_id": as_text(row.row.id)}}
            )
            if inner.declared:
                to = ForkTarget(target_id, host, self._codec_at(inner, saver))
                commits.append(await copy_checkpoint(inner, await load_source(inner), to))
        # The root is stored last, as in the source, where subgraphs' states are older than it.
        commits.append(
            await copy_checkpoint(at, found, ForkTarget(target_id, host, self._codec_at(at, saver)))
        )
        await host.writer.store(*commits)
        return address_of_copy(commits[-1])

    def _codec_at(self, at: AddressedGraph, saver: Saver | None) -> Codec:
        """Return the codec for the copy: that of the given saver, or of the source."""
        own = getattr(saver, "codec", None)
        return at.codec if own is None else cast("Codec", own).with_types(self.stored_types)


async def read_state(at: AddressedGraph, config: Mapping[str, Any]) -> StateSnapshot:
    """Return the snapshot of the addressed checkpoint; without one, of the thread as it is now.

    Args:
        config: becomes that of an empty snapshot, if the thread has no checkpoint.
    """
    found = await load(at.host, at.codec, at.plan, at.address, parents=True, declared=at.declared)
    restored = found.restored
    if restored is None:
        return empty_snapshot(dict(config))
    live = at.address.checkpoint is None
    holder = found.holder if live and not at.address.namespace else None
    works = await works_on(at.host, at.address.thread_id, holder, restored.created)
    if not restored.id:
        return unsaved_snapshot(dict(config), works=works)
    parents = found.parents or await _writes_of(at, restored.parent)  # some read it in one query
    return _shown(at, restored, parents, live=live, held=holder is not None, works=works)


def _shown(
    at: AddressedGraph, restored: Restored, parents: ParentWrites | None, **view: bool
) -> StateSnapshot:
    """Make a snapshot as `view` says; large writes are decoded when they are looked at."""
    large = parents is not None and parents.are_large
    given = () if parents is None or large else parents
    made = snapshot(at.plan, restored, at.address.thread_id, parent_ledger=given, **view)
    return with_late_writes(made, at.plan, restored, parents) if parents and large else made


async def _writes_of(at: AddressedGraph, checkpoint: bytes | None) -> ParentWrites | None:
    """Read the pending writes of a checkpoint; None if absent, or for None."""
    if checkpoint is None:
        return None
    query = LoadCheckpoint(at.address.thread_id, at.address.namespace, checkpoint)
    stored = (await at.host.reader.ask(query)).checkpoint
    return ParentWrites(at.codec, stored, stored.ledger) if stored else None


PAGE_SIZE = 100
Where = tuple[tuple[str, object], ...]
_RowWithParent = tuple[StoredCheckpoint, ParentWrites | None]
"""A checkpoint, and the pending writes of its parent."""


def read_history(
    at: AddressedGraph, *, where: Where, before: bytes | None, limit: int | None, lineage: bool
) -> Pages[StateSnapshot]:
    """Iterate over the snapshots of a namespace, newest first.

    Args:
        where: metadata that must be equal.
        before: a checkpoint id; only older ones are listed.
        limit: the most snapshots; None for all.
        lineage: list only the addressed checkpoint, by default the newest, and its ancestors.
            Without it an addressed checkpoint is listed alone.
    """
    shown = partial(_record, at)
    if lineage:
        return Pages(_LineageReader(at, where, before, limit).page, shown)
    if at.address.checkpoint is not None:
        return Pages(_SingleReader(at, where, before, limit).page, shown)
    return Pages(_PageReader(at, where, before, limit).page, shown)


class _PageReader:
    """Reads the pages of a listing."""

    def __init__(
        self, at: AddressedGraph, where: Where, before: bytes | None, limit: int | None
    ) -> None:
        self._at, self._where = at, where
        self._bound, self._left, self._full = before, limit, True
        self._after: tuple[bytes, str, int] | None = None
        self._beyond: list[StoredCheckpoint] = []

    async def page(self) -> list[_RowWithParent]:
        """Return the next page, to be made into snapshots."""
        rows = await self.rows()
        return await _with_parents(self._at, rows, self._beyond)

    async def rows(self) -> list[StoredCheckpoint]:
        """Return the next page as it is stored.

        One row more is read: it says whether there is another page, and most often it is the
        parent of the page's last row, whose writes that one's snapshot needs.
        """
        size = PAGE_SIZE if self._left is None else min(self._left, PAGE_SIZE)
        if size <= 0 or not self._full:
            return []
        place = self._at.address
        query = ListCheckpoints(
            place.thread_id,
            place.namespace,
            None if self._after else self._bound,
            self._where,
            size + 1,
            ancestors=True,
            after=self._after,
        )
        read: list[StoredCheckpoint] = await self._at.host.reader.ask(query)
        found, self._beyond = read[:size], read[size:]
        self._full = bool(self._beyond)
        if found:  # continue after a position, not an id: that row may be removed meanwhile
            last = found[-1]
            self._after = (last.row.id, last.thread_id, last.sequence)
        self._left = None if self._left is None else self._left - len(found)
        return found


class _SingleReader:
    """Reads the one checkpoint that is addressed, if it matches the filters."""

    def __init__(
        self, at: AddressedGraph, where: Where, before: bytes | None, limit: int | None
    ) -> None:
        self._at, self._rows = at, _PageReader(at, where, before, None)
        self._done = limit == 0

    async def page(self) -> list[_RowWithParent]:
        """Return that checkpoint once, then an empty page."""
        while not self._done and (rows := await self._rows.rows()):
            found = [row for row in rows if row.row.id == self._at.address.checkpoint]
            if found:
                self._done = True
                return await _with_parents(self._at, found)
        return []


class _LineageReader:
    """Reads a checkpoint and its ancestors out of the pages of the whole namespace.

    One pass suffices, because a parent is always older than its child.
    """

    def __init__(
        self, at: AddressedGraph, where: Where, before: bytes | None, limit: int | None
    ) -> None:
        self._at, self._where, self._left = at, dict(where), limit
        self._rows = _PageReader(at, (), None, None)
        self._before = before
        self._begun = False
        self._next = at.address.checkpoint

    async def page(self) -> list[_RowWithParent]:
        """Return the next page with a match; an empty one at the root."""
        while self._left != 0 and (rows := await self._rows.rows()):
            found = [row for row in rows if self._is_next_ancestor(row) and self._matches(row)][
                : self._left
            ]
            if self._left is not None:
                self._left -= len(found)
            if found:
                return await _with_parents(self._at, found)
        return []

    def _is_next_ancestor(self, stored: StoredCheckpoint) -> bool:
        """Whether a row is the next ancestor, and older than `before`.

        A row that is its own parent ends the walk: damaged data must not make it endless.
        """
        row = stored.row
        older, self._before = self._before is None, _unless(self._before, row.id)
        if self._next is None and self._begun:
            return False
        if self._next not in (None, row.id):
            return False
        self._begun = True
        self._next = None if row.parent == row.id else row.parent
        return older

    def _matches(self, stored: StoredCheckpoint) -> bool:
        row = stored.row
        metadata = {**decode_metadata(row.metadata), "step": row.step, "source": row.source}
        return all(
            key in metadata and encode_json(metadata[key]) == encode_json(value)  # true is not 1
            for key, value in self._where.items()
        )


def _unless(wanted: bytes | None, found: bytes) -> bytes | None:
    return None if wanted == found else wanted


async def _with_parents(
    at: AddressedGraph, page: list[StoredCheckpoint], beyond: Sequence[StoredCheckpoint] = ()
) -> list[_RowWithParent]:
    """Pair checkpoints with the pending writes of their parents, which made them."""
    ledgers: dict[bytes, ParentWrites | None] = {
        stored.row.id: ParentWrites(at.codec, stored, stored.ledger) for stored in (*page, *beyond)
    }
    found: list[_RowWithParent] = []
    for stored in page:
        parent = stored.row.parent
        if parent is not None and parent not in ledgers:
            ledgers[parent] = await _writes_of(at, parent)
        found.append((stored, ledgers.get(parent or b"")))
    return found


def _record(at: AddressedGraph, row: _RowWithParent) -> StateSnapshot:
    """Build the snapshot of a row, when the reader asks for it."""
    stored, parents = row
    found = restore(at.codec, at.plan, Loaded(checkpoint=stored, head=stored.row.id))
    assert found is not None
    return _shown(at, found[0], parents, live=False)
