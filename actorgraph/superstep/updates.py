"""update_state and fork_state: checkpoints made from outside of a run.

update_state makes supersteps as if nodes had returned values. The base checkpoint stays as it is;
each superstep makes a child of the one before. `as_node` names the author of an update; three
reserved names are operations of their own:

| `as_node`     | what it does                                                                   |
|---------------|--------------------------------------------------------------------------------|
| a node        | its edges alone decide what is due; every other pending task is dropped        |
| none          | the last updater, if one node wrote the base; else what is due stays due       |
| `"__end__"`   | with None: finished tasks are folded in, all others dropped                    |
| `"__input__"` | an input on top: what is due stays due                                         |
| `"__copy__"`  | a sibling of the base; a list of `(values, as_node)` is applied to it at once  |

Without an `as_node` the author is the node of the task that a `task_id` names, else the node that
wrote last, if exactly one did; else there is none, and what is due stays due.

fork_state copies one checkpoint to another thread, as its root. The copy has every cell, so it
depends on nothing of its origin; it has no parent and no pending writes: what was due is due again,
under new ids.

Sources: docs/decisions/0009-update-state-as-node.md; update phase: Malewicz et al., "Pregel",
SIGMOD 2010.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from actorgraph.errors import (
    InvalidConfigError,
    InvalidUpdateError,
    MissingNodeError,
    did_you_mean,
)
from actorgraph.plan.graph import NodePlan, Plan
from actorgraph.superstep.results import updates_in, writes_of
from actorgraph.superstep.state import RunState
from actorgraph.superstep.tasks import due_tasks
from actorgraph.values.commands import StateUpdate
from actorgraph.values.constants import END, INPUT, START
from actorgraph.values.ids import TaskId, as_bytes
from actorgraph.values.run import Write

COPY = "__copy__"
"""As this node, an update makes a sibling of its base."""


class NodeUpdate(msgspec.Struct, frozen=True):
    """One update of a superstep, checked.

    Attributes:
        node: its author; None keeps what is due.
        values: as given.
        task: the id under which its writes are kept beside the base; None: one is chosen.
        inferred: whether no `as_node` was given.
    """

    node: NodePlan | None
    values: Any
    task: TaskId | None
    inferred: bool


def checked_updates(
    state: RunState, updates: Sequence[StateUpdate], *, strict: bool
) -> list[NodeUpdate]:
    """Check the updates of one superstep and find their authors.

    Args:
        strict: refuse an update without `as_node` unless exactly one node wrote last.
    Raises:
        MissingNodeError: an `as_node` is not a node of the graph.
        InvalidUpdateError: one of several updates has no `as_node`, or a task id is not a UUID.
    """
    special = [u.as_node for u in updates if u.as_node in (INPUT, COPY) or clears(u)]
    if special and len(updates) > 1:
        raise InvalidUpdateError(
            f"as_node={special[0]!r} can't be one of several updates of a superstep",
            do="give it a superstep of its own",
        )
    found: list[NodeUpdate] = []
    for update in updates:
        if update.as_node is None and len(updates) > 1:
            raise InvalidUpdateError(
                "as_node is required when several updates are applied in one superstep",
                do="StateUpdate(values, as_node=...) for each of them",
            )
        task = None if update.task_id is None else _task_id(update.task_id)
        node = _node_of(state, update.as_node, task)
        if node is None and strict:
            raise InvalidUpdateError(
                "Ambiguous update, specify as_node: not exactly one node wrote the checkpoint",
                do="pass as_node=, or leave strict= out to keep what is due",
            )
        found.append(NodeUpdate(node, update.values, task, update.as_node is None))
    return found


def clears(update: StateUpdate) -> bool:
    """Whether an update only drops what is due."""
    return update.as_node == END and update.values is None


def _task_id(text: str) -> TaskId:
    try:
        as_bytes(text)
    except (ValueError, AttributeError):
        raise InvalidUpdateError(
            f"task_id must be the id of a task, got {text!r}",
            do="take it from get_state(config).tasks[i].id, or leave it out",
        ) from None
    return TaskId(text)


def _node_of(state: RunState, as_node: str | None, task: TaskId | None) -> NodePlan | None:
    """Find the author of an update; None to keep what is due."""
    plan = state.plan
    if as_node is not None:
        if as_node not in plan.nodes:
            names = [name for name in plan.nodes if name != START]
            raise MissingNodeError(
                f"Node {as_node} does not exist in graph {plan.name!r}",
                do=did_you_mean(as_node, names),
            )
        return plan.nodes[as_node]
    for due in due_tasks(state, None) if task is not None else ():
        if due.id == task:
            return plan.nodes[due.name]
    if len(plan.nodes) == 1:  # an entrypoint: a graph declared by its channels, without a START
        return next(iter(plan.nodes.values()))
    return _last_updater(plan, state) if state.versions else plan.start


def _last_updater(plan: Plan, state: RunState) -> NodePlan | None:
    newest: dict[str, Any] = {}
    for name, seen in state.seen.items():
        if name in plan.nodes and seen:
            newest[name] = max(seen.values())
    if not newest:
        return plan.start
    top = max(newest.values())
    last = [name for name, version in newest.items() if version == top]
    return plan.nodes[last[0]] if len(last) == 1 and last[0] != START else None


def update_writes(plan: Plan, node: NodePlan | None, values: Any) -> list[Write]:
    """Make the writes of an update, without those of conditional edges (which are user code).

    Args:
        node: its author, or None.
    Raises:
        InvalidUpdateError: the values are not an update, or a key is unknown.
    """
    if node is None:
        return _only_known(plan, values)
    writes, dropped = writes_of(plan, node, values)
    if dropped:
        raise InvalidUpdateError(dropped[0], do="update known keys only; nothing was written")
    return writes


def _only_known(plan: Plan, values: Any) -> list[Write]:
    writes = list(updates_in(plan.start, values))
    unknown = [key for key, _ in writes if key not in plan.state_keys]
    if unknown:
        raise InvalidUpdateError(
            f"the update has {unknown[0]!r}, which is not a channel of this graph",
            do=did_you_mean(unknown[0], plan.state_keys),
        )
    return writes


def supersteps_of(given: Any) -> list[list[StateUpdate]]:
    """Read the argument of `bulk_update_state` as supersteps.

    Args:
        given: a list of supersteps, each a list of updates; or a flat list of updates, each of
            which is a superstep. An update is a `StateUpdate` or `(values, as_node, task_id)`.
    Raises:
        InvalidConfigError: the list or a superstep is empty, or an update has another form.
    """
    steps = [[_one(item)] if _is_update(item) else [_one(u) for u in item] for item in given]
    if not steps or not all(steps):
        raise InvalidConfigError(
            "No supersteps provided" if not steps else "No updates provided in a superstep",
            do="pass at least one update: [[StateUpdate(values, as_node=...)]]",
        )
    return steps


def _is_update(item: Any) -> bool:
    if isinstance(item, StateUpdate):
        return True
    return isinstance(item, tuple) and not all(
        isinstance(part, (StateUpdate, tuple, list)) for part in item
    )


def _one(item: Any) -> StateUpdate:
    if isinstance(item, StateUpdate):
        return item
    if isinstance(item, (tuple, list)) and 1 <= len(item) <= 3:
        return StateUpdate(*item)
    raise InvalidConfigError(
        f"Expected an update, got {item!r}",
        do="use StateUpdate(values, as_node) or (values, as_node)",
    )
