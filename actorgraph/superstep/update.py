"""update_state: values from outside, folded as one superstep of a node that didn't run.

The base checkpoint stays as it is; the update makes a child of it. Without `as_node` the last
updater is inferred when exactly one node wrote the base; otherwise the tasks that were due stay
due. Source: resolution of two readings of the same feature, docs/decisions/0009.
"""

from typing import Any

from actorgraph.errors import InvalidUpdateError, MissingNodeError, did_you_mean
from actorgraph.plan.graph import NodePlan, Plan
from actorgraph.superstep.advance import new_superstep
from actorgraph.superstep.apply import Ran, apply
from actorgraph.superstep.results import updates_in, writes_of
from actorgraph.superstep.saves import new_checkpoint, result_entry, save
from actorgraph.superstep.state import RunState
from actorgraph.superstep.tasks import due_tasks
from actorgraph.values.constants import INPUT, INTERRUPT, START
from actorgraph.values.run import ClaimIntent, LedgerEntry, Save, TaskResult, Write


def updater(state: RunState, as_node: str | None) -> NodePlan | None:
    """The node as which to update; None to keep what is due.

    Raises:
        MissingNodeError: `as_node` is no node.
    """
    plan = state.plan
    if as_node is not None:
        if as_node not in plan.nodes:
            names = [name for name in plan.nodes if name != START]
            raise MissingNodeError(
                f"Node {as_node} does not exist in graph {plan.name!r}",
                do=did_you_mean(as_node, names),
            )
        return plan.nodes[as_node]
    if len(plan.nodes) == 1:
        return next(iter(plan.nodes.values()))
    if not state.versions:
        return plan.start
    return _last_updater(plan, state)


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
    """The writes of an update, without conditional edges (those are user code).

    Raises:
        InvalidUpdateError: a value or key can't be taken.
    """
    source = node or plan.start
    if node is None:
        return _checked(plan, source, values)
    writes, dropped = writes_of(plan, node, values)
    if dropped:
        raise InvalidUpdateError(dropped[0], do="update known keys only; nothing was written")
    return writes


def _checked(plan: Plan, node: NodePlan, values: Any) -> list[Write]:
    writes = list(updates_in(node, values))
    unknown = [key for key, _ in writes if key not in plan.state_keys]
    if unknown:
        raise InvalidUpdateError(
            f"the update has {unknown[0]!r}, which is not a channel of this graph",
            do=did_you_mean(unknown[0], plan.state_keys),
        )
    return writes


def apply_update(
    state: RunState,
    node: NodePlan | None,
    writes: list[Write],
    *,
    inferred: bool,
) -> Save:
    """Fold the update and make the save with its checkpoint: claim, checkpoint and end in one.

    Args:
        state: at the base checkpoint; becomes the state after the update.
        node: as which to update; its edges decide what is due next. None keeps what is due.
    Raises:
        InvalidUpdateError: a channel refuses the writes.
    """
    if node is None:
        ran = Ran(INPUT, (), tuple(writes))
    else:
        # The trigger that no channel has: everybody else's edges age and are not taken.
        ran = Ran(node.name, (INTERRUPT,), tuple(writes))
    head = state.head
    ledger = _as_its_task(state, node, writes)
    changed = apply(state, [ran])
    state.step = max(state.step, -1)
    new_superstep(state, "update", changed)
    state.updated = None
    if head is None:
        state.parent = None
    tasks = due_tasks(state, None)
    own = {"as_node": node.name if node else None, "as_node_inferred": inferred}
    point = new_checkpoint(state, tasks, own)
    claim = ClaimIntent(head, "sync")
    return save(state, claim=claim, ledger=ledger, checkpoints=(point,), ends="updated")


def _as_its_task(
    state: RunState, node: NodePlan | None, writes: list[Write]
) -> tuple[LedgerEntry, ...]:
    """The base's ledger row of the task that the update stands for, so that history shows it.

    None for an older base: its rows belong to the runs that went on from it.
    """
    if node is None or state.checkpoint != state.head:
        return ()
    task = next((t for t in due_tasks(state, None) if t.name == node.name), None)
    return (result_entry(state, task, TaskResult(task.id, tuple(writes))),) if task else ()
