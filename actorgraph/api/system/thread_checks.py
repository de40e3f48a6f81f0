"""Check stored threads against a graph, without running or changing anything.

Each thread's newest checkpoint, those of the subgraphs that wait in it, and its open runs are read
as a resume would read them, and `superstep.changes` says what that would do.
"""

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import anyio
import msgspec

from actorgraph.api.config import is_thread_id
from actorgraph.api.graph.addressed import AddressedGraph
from actorgraph.api.graph.compiled import CompiledStateGraph
from actorgraph.api.system.run_arguments import refused_call, stored_call
from actorgraph.codec.decode_errors import type_cure
from actorgraph.codec.records import decode_record
from actorgraph.codec.restore import open_claim, restore, restore_claim
from actorgraph.errors import (
    ActorGraphError,
    ChangedTypeError,
    DamagedRowError,
    UnknownTypeError,
)
from actorgraph.errors.storage import DAMAGED, UNREADABLE
from actorgraph.plan.plan import Plan
from actorgraph.runtime.run.below import changes_below, lost_memories
from actorgraph.runtime.saver.hosting import Host
from actorgraph.runtime.task.scope import DEFINED_TASKS
from actorgraph.superstep.changes.change import change_of
from actorgraph.values.checked_threads import ThreadCheck, ThreadCheckReport, ThreadTally
from actorgraph.values.checkpoint import Restored
from actorgraph.values.commits import LoadCheckpoint, Loaded
from actorgraph.values.constants import TASKS
from actorgraph.values.graph_changes import Finding, FindingKind, GraphChange, ResumeVerdict
from actorgraph.values.retention import ListThreads
from actorgraph.values.systems import OPEN_STATUSES, ListRuns, RunRow

AT_ONCE = 64
"""Threads that are read at the same time: together they are few transactions."""


_PLACE = re.compile(r"checkpoint [0-9a-f-]{36}( of namespace '[^']*')? of thread '[^']*': ")
"""The place in the text of an error, which differs from thread to thread."""


async def check_threads(
    graphs: Mapping[str, CompiledStateGraph], saver: Any, *, prefix: str = ""
) -> ThreadCheckReport:
    """Check the threads of a saver.

    A thread belongs to the graph whose name its checkpoint, or else its open run, has; to the
    only graph if that is renamed by one of its migrations.

    Args:
        graphs: name -> graph, compiled for this saver.
        saver: the open saver; one that only reads is enough.
        prefix: only threads whose id begins with it.
    """
    tally = ThreadTally()
    some = next(iter(graphs.values()))
    host = some.locate("check_threads", {"configurable": {"thread_id": "-"}}).host
    runs = await _open_runs(saver, host)
    ids = sorted({*await host.reader.ask(ListThreads(inputs=True)), *runs})
    async for found in _each([one for one in ids if one.startswith(prefix)], graphs, runs):
        name, check = found
        if check is None:
            tally.leave_out(name)
        else:
            tally.add(name, check)
    return tally.report()


async def _open_runs(saver: Any, host: Host) -> dict[str, list[RunRow]]:
    """Read the open runs of a saver that stores runs: thread -> its runs, oldest first."""
    found: dict[str, list[RunRow]] = {}
    if getattr(saver, "keeps_runs", False):
        for row in await host.reader.ask(ListRuns(statuses=OPEN_STATUSES)):
            found.setdefault(row.thread_id, []).append(row)
    return found


async def _each(
    ids: Sequence[str],
    graphs: Mapping[str, CompiledStateGraph],
    runs: Mapping[str, list[RunRow]],
) -> AsyncIterator[tuple[str, ThreadCheck | None]]:
    for at in range(0, len(ids), AT_ONCE):
        found: dict[str, tuple[str, ThreadCheck | None]] = {}

        async def look(one: str, found: dict[str, tuple[str, ThreadCheck | None]] = found) -> None:
            found[one] = await _check(one, graphs, runs.get(one, []))

        async with anyio.create_task_group() as group:
            for one in ids[at : at + AT_ONCE]:
                group.start_soon(look, one)
        for one in ids[at : at + AT_ONCE]:
            yield found[one]


async def _check(
    thread_id: str, graphs: Mapping[str, CompiledStateGraph], runs: list[RunRow]
) -> tuple[str, ThreadCheck | None]:
    """Check a thread.

    Returns: the name of its graph, and the check; None for a graph that isn't among `graphs`.
    """
    first, some = next(iter(graphs.items()))
    config = {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}
    try:
        if not is_thread_id(thread_id):
            raise damaged_id(thread_id)
        at = some.locate("check_threads", config)
        query = LoadCheckpoint(thread_id, ancestors=True)
        loaded: Loaded = await at.host.reader.ask(query)
    except (*UNREADABLE, *DAMAGED) as error:  # whose it is can't be read either
        change = _with(some.plan, thread_id, "", unreadable(error, "its checkpoint"))
        return first, ThreadCheck((change,), waits=bool(runs))
    name, stored_graph = _name_of(at, loaded, runs)
    known = _graph_named(name, graphs)
    if known is None:
        return name, None
    name, graph = known
    at = graph.locate("check_threads", config)
    change, restored = _change_of(at, loaded, thread_id, stored_graph)
    changes = [change]
    waits = bool(runs)
    if restored is not None:
        waits = waits or bool(restored.next or restored.values.get(TASKS))
        if change.verdict is not ResumeVerdict.REFUSED:
            changes += await _below(at, restored, thread_id)
    elif loaded.checkpoint is None:
        waits = True  # only the input of its first run is stored
    changes += [found for row in runs if (found := _run_change(graph, row)) is not None]
    return name, ThreadCheck(tuple(changes), waits)


def damaged_id(thread_id: str) -> DamagedRowError:
    """Make the error of a stored row with an id that no thread can have."""
    return DamagedRowError(
        f"a row is of the thread {thread_id[:40]!r}, an id that no thread can have",
        do="restore the database from a backup, or remove the row",
    )


def _name_of(at: AddressedGraph, loaded: Loaded, runs: list[RunRow]) -> tuple[str, str]:
    """Return the name of a thread's graph, and the id of the graph that stored it."""
    stored, found = loaded.checkpoint, ""
    with suppress(ActorGraphError):  # `_change_of` reports it
        if stored is not None:
            found = decode_record(stored.row.record).graph
        elif not runs:
            claim = open_claim(at.codec, loaded, at.address.thread_id)
            found = "" if claim is None else claim.accepted_by
    return runs[0].graph if runs else found.rpartition(":")[0], found


def _graph_named(
    name: str, graphs: Mapping[str, CompiledStateGraph]
) -> tuple[str, CompiledStateGraph] | None:
    if name in graphs:
        return name, graphs[name]
    for known, graph in graphs.items():
        renamed = any(name in each.nodes for each in graph.plan.migrations)
        if not name or name == graph.plan.name or renamed:
            return known, graph
    return None


def _change_of(
    at: AddressedGraph, loaded: Loaded, thread_id: str, stored_graph: str
) -> tuple[GraphChange, Restored | None]:
    """Decide what a resume would do with a loaded checkpoint, or with a first run's claim."""
    try:
        found = None if loaded.checkpoint is None else restore(at.codec, at.plan, loaded)
        if found is None:
            unsaved = restore_claim(at.codec, at.plan, loaded, thread_id)
            if unsaved is None:
                return _with(at.plan, thread_id, stored_graph, None), None
            return change_of(at.plan, unsaved, thread_id), None
        return change_of(at.plan, found[0], thread_id, DEFINED_TASKS), found[0]
    except ActorGraphError as error:
        finding = unreadable(error, "its checkpoint", at.address.namespace)
        return _with(at.plan, thread_id, stored_graph, finding), None


async def _below(at: AddressedGraph, restored: Restored, thread_id: str) -> list[GraphChange]:
    """Return what a resume would do with the subgraphs that wait in a checkpoint."""
    try:
        found = await changes_below(at.host, at.plan, restored, thread_id, tasks=DEFINED_TASKS)
        return [*found, *await lost_memories(at.host, at.plan, restored, thread_id)]
    except ActorGraphError as error:
        finding = unreadable(error, "the checkpoint of a subgraph")
        return [_with(at.plan, thread_id, restored.graph, finding)]


def _run_change(graph: CompiledStateGraph, row: RunRow) -> GraphChange | None:
    """Return why an open run of a system can't be taken up, or that migrations change it."""
    try:
        call, _ = stored_call(graph, row, claimed=row.claimed)
    except ActorGraphError as error:
        finding = unreadable(error, "a run waits whose arguments")
    else:
        finding = refused_call(graph, call)
        if finding is None and call.migrated:
            change = _with(graph.plan, row.thread_id, "", None)
            verdict = ResumeVerdict.MIGRATED
            return msgspec.structs.replace(change, verdict=verdict, migrated=call.migrated)
    return None if finding is None else _with(graph.plan, row.thread_id, "", finding)


def unreadable(error: ActorGraphError, what: str, namespace: str = "") -> Finding:
    """Make the finding of a row that the graph can't read."""
    name = error.type_name if isinstance(error, UnknownTypeError | ChangedTypeError) else ""
    cure = f"Migration(types={{{name!r}: NewType}})" if name else ""
    why = f"that holds the type {name!r}" if name else _PLACE.sub("", error.what)
    if isinstance(error, ChangedTypeError) and name:
        cure, why = type_cure(name), f"{why}, which has other fields now"
    return Finding(
        FindingKind.VALUE,
        name or type(error).__name__,
        f"{what} can't be read",
        why,
        cure,
        error.do or "",
        namespace,
    )


def _with(plan: Plan, thread_id: str, stored_graph: str, finding: Finding | None) -> GraphChange:
    return GraphChange(
        thread_id=thread_id,
        checkpoint="",
        stored_graph=stored_graph,
        graph=plan.graph_id,
        verdict=ResumeVerdict.FITS if finding is None else ResumeVerdict.REFUSED,
        findings=() if finding is None else (finding,),
    )
