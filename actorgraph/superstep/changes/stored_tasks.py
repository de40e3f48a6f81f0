"""The waiting tasks of a thread whose graph has changed, found under the names of then.

The id of a task is a hash of names: its node's and its triggers'. Under a graph with other names
the same task would get another id, and its results, answers and questions, and the checkpoints of
its subgraphs, would be left out. So a task whose superstep was stored under other names keeps the
id and the namespace that it has in the store, until the superstep is over.
"""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

import msgspec

from actorgraph.channels import EMPTY
from actorgraph.plan.plan import Plan
from actorgraph.superstep.apply import apply_command
from actorgraph.superstep.pending_writes import attempts
from actorgraph.superstep.run_state import RunState
from actorgraph.superstep.task_failures import handler_task
from actorgraph.superstep.tasks import due_tasks
from actorgraph.values.checkpoint import Restored, StoredWrite
from actorgraph.values.constants import (
    BRANCH_TO,
    HANDLER_MARK,
    HANDLER_PREFIX,
    NULL_TASK,
    PULL,
    PUSH,
    TASKS,
)
from actorgraph.values.ids import CheckpointId, task_id
from actorgraph.values.policies import RunPolicy
from actorgraph.values.run import StoredPlace, Task, TaskPath

_NODE_PARTS = 2
"""Parts of the path of a node's task."""


class StoredNames(msgspec.Struct, frozen=True):
    """The names of a checkpoint as it was stored.

    Attributes:
        channels: today's name of a trigger -> the stored one, where they differ.
        nodes: today's name of a node -> the stored ones, likeliest first.
        sends: `id()` of a Send of today -> (its index, its node) as stored.
    """

    channels: Mapping[str, str] = {}
    nodes: Mapping[str, tuple[str, ...]] = {}
    sends: Mapping[int, tuple[int, str]] = {}


def bare_state(plan: Plan, restored: Restored) -> RunState:
    """Make a run state at a checkpoint, without the Commands beside it, only to read it."""
    state = RunState(plan, RunPolicy(), _no_mint, has_saver=False)
    first = plan.initial_values() if plan.firsts else {}
    state.namespace, state.checkpoint = restored.namespace, restored.id
    state.values = {**first, **restored.values}
    state.versions = dict(restored.versions)
    state.seen = {node: dict(seen) for node, seen in restored.seen.items()}
    state.max_version = max([restored.version_floor, *restored.versions.values()])
    state.places = restored.places
    return state


def _no_mint(_: int, __: bytes | None) -> CheckpointId:
    return CheckpointId(b"\0" * 16)


def stages_of(
    state: RunState, ledger: Iterable[StoredWrite]
) -> Iterable[tuple[RunState, list[Task]]]:
    """Iterate over the state before and after each Command beside a checkpoint, and its tasks."""
    yield state, due_tasks(state, None)
    commands = sorted((r for r in ledger if r.task == NULL_TASK and r.index >= 0), key=_index)
    for row in commands:
        apply_command(state, row.writes)
        yield state, due_tasks(state, None)


def _index(row: StoredWrite) -> int:
    return row.index


def places_of(
    plan: Plan, restored: Restored, names: StoredNames, paths: Iterable[tuple[str, TaskPath]]
) -> dict[str, StoredPlace]:
    """Find the stored places of the tasks that a checkpoint makes due.

    Args:
        restored: by today's names.
        names: those that it was stored with.
        paths: id and path, as they were stored, of each row of a task.
    Returns: id as this graph makes it -> the stored place, where they differ.
    """
    places: dict[str, StoredPlace] = {}
    state = bare_state(plan, restored)
    known, of_nodes = set[str](), dict[TaskPath, str]()
    for identifier, path in paths:
        known.add(identifier)
        if len(path) == _NODE_PARTS and path[0] == PULL:
            of_nodes[path] = identifier
    for now, tasks in stages_of(state, restored.ledger):
        sends = now.values.get(TASKS, EMPTY)
        for task in tasks:
            if task.id in places or task.id in known:
                continue
            place_in_list = task.path[1]
            if isinstance(place_in_list, int):
                sent = (place_in_list, task.name)
                place = _sent(now, *names.sends.get(id(sends[place_in_list]), sent))
            else:
                place = _pulled(now, task, names, known, of_nodes)
            if place.id != task.id:
                places[task.id] = place
    if plan.handlers:
        _find_handlers(state, places, restored)
    return places


def _sent(state: RunState, index: int, node: str) -> StoredPlace:
    rounds = (str(index), f"round {state.send_round}") if state.send_round else (str(index),)
    identifier = task_id(state.checkpoint, state.namespace, node, PUSH, *rounds)
    return StoredPlace(identifier, node, (PUSH, index))


def _pulled(
    state: RunState,
    task: Task,
    names: StoredNames,
    known: AbstractSet[str],
    of_nodes: Mapping[TaskPath, str],
) -> StoredPlace:
    olds = (*names.nodes.get(task.name, ()), task.name)
    for old in olds:
        place = _pulled_as(state, task, names, old)
        if place.id in known:
            return place
    # By the paths of its rows: its triggers may have been stored in another order.
    for old in olds:
        path: TaskPath = (PULL, old)
        if path in of_nodes:
            return StoredPlace(of_nodes[path], old, path)
    return _pulled_as(state, task, names, olds[0])


def _pulled_as(state: RunState, task: Task, names: StoredNames, old: str) -> StoredPlace:
    """The place that a task has in the store if its node had this name."""
    edges = {BRANCH_TO + task.name: BRANCH_TO + old, **names.channels}
    triggers = [edges.get(trigger, trigger) for trigger in task.triggers]
    identifier = task_id(state.checkpoint, state.namespace, old, PULL, *triggers)
    return StoredPlace(identifier, old, (PULL, old))


def _find_handlers(state: RunState, places: dict[str, StoredPlace], restored: Restored) -> None:
    known = attempts(restored.ledger)
    state.places = dict(places)
    for task in due_tasks(state, None):
        node = state.plan.nodes.get(task.name)
        if task.stored is None or node is None or not node.handler:
            continue
        if task.id not in known or not known[task.id].handled:
            continue
        name = HANDLER_PREFIX + task.stored.name
        where = (state.namespace, name, PUSH, HANDLER_MARK, task.id)
        path = (*task.stored.path[:3], HANDLER_MARK, False)
        place = StoredPlace(task_id(state.checkpoint, *where), name, path)
        identifier = handler_task(state, task).id
        if identifier != place.id:
            places[identifier] = place
