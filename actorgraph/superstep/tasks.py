"""The tasks that a state makes due, with their ids and inputs.

The rule: a node runs when one of its trigger channels is available and has a version that the
node has not seen. Pending Sends come first, by their order; then nodes, by name.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from actorgraph.channels import EMPTY
from actorgraph.errors import InvalidUpdateError
from actorgraph.errors.excerpts import reason_text
from actorgraph.plan.plan import NodePlan, Plan
from actorgraph.superstep.inputs import start_input
from actorgraph.superstep.run_state import RunState
from actorgraph.values.commands import Send
from actorgraph.values.constants import BRANCH_TO, PULL, PUSH, START, TASKS
from actorgraph.values.ids import TaskId, task_id
from actorgraph.values.policies import TimeoutPolicy
from actorgraph.values.run import Task, path_key


def due_tasks(state: RunState, changed: Iterable[str] | None) -> list[Task]:
    """Plan the tasks of the next superstep, in plan order.

    Args:
        state: after `apply`. Not modified.
        changed: the channels that changed, when only they can have made a node due; None
            checks every node.
    """
    sends: Sequence[Send] = state.values.get(TASKS, ())
    # For a snapshot of an old checkpoint, whose Send may be to a removed node; a run refuses it.
    known = state.plan.nodes
    tasks: list[Task] = []
    if sends:
        tasks = [_push(state, n, send) for n, send in enumerate(sends) if send.node in known]
    names: Sequence[str] = ()
    if changed is None:
        names = sorted(known)
    else:
        for channel in changed:
            if channel in state.plan.subscribers:
                names = [*names, *state.plan.subscribers[channel]]
        if len(names) > 1:
            names = sorted(set(names))
    for name in names:
        triggers = due_triggers(state, state.plan.nodes[name])
        if triggers:
            tasks.append(_pull(state, state.plan.nodes[name], triggers))
    return tasks


def due_triggers(state: RunState, node: NodePlan) -> tuple[str, ...]:
    """List the triggers that make a node due now; empty if it isn't due."""
    seen = state.seen.get(node.name, _NOTHING)
    values, opaque = state.values, state.plan.opaque
    due: tuple[str, ...] = ()
    for channel in node.triggers:
        available = state.read(channel) is not EMPTY if channel in opaque else channel in values
        if available and is_newer(state.versions.get(channel), seen.get(channel)):
            due = (*due, channel)
    return due


_NOTHING: Mapping[str, Any] = {}


def is_newer(version: Any, seen: Any) -> bool:
    """Whether a version is above the one seen; None seen counts as the type's zero value."""
    if version is None:
        return False
    if seen is None:
        seen = type(version)()
    return version > seen


def _pull(state: RunState, node: NodePlan, triggers: tuple[str, ...]) -> Task:
    identifier = task_id(state.checkpoint, state.namespace, node.name, PULL, *triggers)
    task = Task(
        id=identifier,
        name=node.name,
        path=node.path,
        triggers=triggers,
        input=None,
        timeout=node.timeout,
        within=state.namespace,
    )
    return as_stored(state, task) if state.places else task


def as_stored(state: RunState, task: Task) -> Task:
    """Return a task with the id under which it is stored, if its node was renamed since then."""
    place = state.places.get(task.id)
    if place is None:
        return task
    return msgspec.structs.replace(task, id=TaskId(place.id), stored=place)


def _push(state: RunState, index: int, send: Send) -> Task:
    place = (str(index), f"round {state.send_round}") if state.send_round else (str(index),)
    identifier = task_id(state.checkpoint, state.namespace, send.node, PUSH, *place)
    node = state.plan.nodes[send.node]
    task = Task(
        id=identifier,
        name=send.node,
        path=(PUSH, index),
        triggers=(PUSH,),
        input=send.arg,
        timeout=node.timeout if send.timeout is None else TimeoutPolicy.coerce(send.timeout),
        within=state.namespace,
    )
    return as_stored(state, task) if state.places else task


def input_of(state: RunState, task: Task) -> Any:
    """Make a node's input: a Send's argument as it is, or the node's view of the state.

    Raises:
        InvalidUpdateError: the node's schema refuses the values.
    """
    if task.path[0] == PUSH:
        return task.input
    # By the path, not the task's name: an error handler gets the input of the failed node.
    return _from_edge(state, state.plan.nodes[str(task.path[1])], task)


def state_for(state: RunState, task: Task) -> Any:
    """Make the state that a task's node would get from an edge, if a Send gave it something else.

    A `@task` call has no node in the graph: all values, as a dict.

    Raises:
        InvalidUpdateError: the node's schema refuses the values.
    """
    node = state.plan.nodes.get(task.name)
    if node is None or task.path[0] != PUSH:
        return {key: state.values[key] for key in state.plan.state_keys if key in state.values}
    return _from_edge(state, node, task)


def _from_edge(state: RunState, node: NodePlan, task: Task) -> Any:
    plan = state.plan
    if node is plan.start and plan.entry is None:
        return start_input(state, state.values.get(START))
    try:
        values = visible(state) if plan.managed else state.values
        return view(plan, values, node.reads, node.coerce)
    except InvalidUpdateError as error:
        what = f"node {task.name!r}: {error.what}"
        raise InvalidUpdateError(what, do=error.do) from error.__cause__


def visible(state: RunState) -> dict[str, Any]:
    """The cells with the managed values (`IsLastStep`, `RemainingSteps`) added."""
    managed = state.plan.managed
    if not managed:
        return state.values
    computed = {key: rule.value(state.steps_left) for key, rule in managed.items()}
    return {**state.values, **computed}


def view(plan: Plan, values: Mapping[str, Any], reads: Sequence[str], coerce: Any) -> Any:
    """Make the part of a state that a node or a router sees.

    Args:
        values: the cells. Not modified.
        reads: channel names; a bare-valued graph has the one name `__root__`.
        coerce: makes keyword arguments into the user's schema; None leaves a dict.
    Raises:
        InvalidUpdateError: the schema refuses the values.
    """
    opaque = plan.opaque
    if len(reads) == 1 and reads[0] in ("__root__", START):
        value = values.get(reads[0], EMPTY)
        return None if value is EMPTY else value
    if opaque and not opaque.isdisjoint(reads):
        pairs = ((k, _seen(plan, k, values.get(k, EMPTY))) for k in reads)
        seen = {k: v for k, v in pairs if v is not EMPTY}
    else:
        seen = {k: values[k] for k in reads if k in values}
    if coerce is None:
        return seen
    try:
        return coerce(**seen)
    except Exception as error:
        name = getattr(coerce, "__name__", coerce)
        raise InvalidUpdateError(
            f"the state {sorted(seen)} can't be made into {name}: {reason_text(error)}",
            do="give the schema's fields defaults and types that the state's values fit",
        ) from error


def _seen(plan: Plan, key: str, value: Any) -> Any:
    channel = plan.channels.get(key)
    return value if channel is None else channel.read(value)


def next_nodes(plan: Plan, tasks: Sequence[Task]) -> tuple[str, ...]:
    """List the nodes of these tasks, in the order in which they are shown."""
    if len(tasks) > 1:
        return tuple([task.name for task in as_shown(plan, tasks)])
    return (tasks[0].name,) if tasks else ()


def as_shown(plan: Plan, tasks: Iterable[Task]) -> list[Task]:
    """Sort tasks as a snapshot lists them: Sends by index, then nodes in definition order.

    They run in plan order, by name; see `due_tasks`.
    """
    order = plan.order
    return sorted(tasks, key=lambda t: -1 if t.path[0] == PUSH else order[t.name])


def in_path_order(tasks: Iterable[Task]) -> list[Task]:
    """Sort tasks by `path_key`: the order in which reducers get their writes.

    It is not the order of completion, so that a concurrent run stays repeatable.
    """
    return sorted(tasks, key=_by_path)


def _by_path(task: Task) -> str:
    return path_key(task.path)


def edge_to(node: str) -> str:
    """Make the name of the channel whose write makes a node due."""
    return BRANCH_TO + node
