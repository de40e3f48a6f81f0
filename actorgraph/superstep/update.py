"""update_state and fork_state: checkpoints made from outside of a run.

update_state makes supersteps as if nodes had returned values. The base checkpoint stays as it is;
each superstep makes a child of the one before. `as_node` names the author of an update; three
reserved names are operations of their own:

| `as_node`     | what it does                                                                   |
|---------------|--------------------------------------------------------------------------------|
| a node        | its edges alone decide the next tasks; every other pending task is dropped     |
| none          | the last updater, if one node wrote the base; else pending tasks stay due      |
| `"__end__"`   | with None: finished tasks are folded in, all others dropped                    |
| `"__input__"` | an input on top: pending tasks stay due                                        |
| `"__copy__"`  | a sibling of the base; a list of `(values, as_node)` is applied to it at once  |

Without an `as_node` the author is the node of the task that a `task_id` names, else the node that
wrote last, if exactly one did; else the update has none, and pending tasks stay due.

A node that routes by `Command(goto=)` or `Send` has no edges that could decide again. An update
as the node that wrote last keeps where it went, unless the values bring a route of their own. One
that leaves nothing to run, although its node leads on or tasks were pending, is reported.

fork_state copies one checkpoint to another thread, as its root. The copy has every cell, so it
depends on nothing of its origin; it has no parent and no pending writes: due tasks are due again,
under new ids.

Sources: docs/decisions/0009-update-state-as-node.md; update phase: Malewicz et al., "Pregel",
SIGMOD 2010.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from actorgraph.errors import (
    ErrorCode,
    InvalidConfigError,
    InvalidUpdateError,
    MissingNodeError,
    did_you_mean,
)
from actorgraph.errors.excerpts import shown
from actorgraph.plan.plan import NodePlan, Plan
from actorgraph.superstep.advance import new_superstep
from actorgraph.superstep.apply import TaskWrites, apply
from actorgraph.superstep.begin import first_writes, restore
from actorgraph.superstep.inputs import first_update, is_fresh, keep_defaults
from actorgraph.superstep.pending_writes import Attempt
from actorgraph.superstep.results import updates_in, writes_and_dropped
from actorgraph.superstep.run_state import RunState
from actorgraph.superstep.saves import new_checkpoint, result_entry, save
from actorgraph.superstep.task_failures import with_handlers
from actorgraph.superstep.tasks import due_tasks, edge_to, in_path_order
from actorgraph.values.checkpoint import Restored
from actorgraph.values.commands import Command, Send, StateUpdate
from actorgraph.values.constants import (
    BRANCH_TO,
    END,
    INPUT,
    INTERRUPT,
    PUSH,
    START,
    TASKS,
)
from actorgraph.values.ids import TaskId, as_bytes, task_id
from actorgraph.values.run import (
    ClaimIntent,
    LedgerEntry,
    NewCheckpoint,
    Save,
    Task,
    TaskResult,
    Write,
)

COPY = "__copy__"
"""As this node, an update makes a sibling of its base."""


class NodeUpdate(msgspec.Struct, frozen=True):
    """One update of a superstep, checked.

    Attributes:
        node: its author; None keeps the pending tasks.
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
    checked: list[NodeUpdate] = []
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
                do="pass as_node=, or leave strict= out to keep the pending tasks",
            )
        checked.append(NodeUpdate(node, update.values, task, update.as_node is None))
    return checked


def clears(update: StateUpdate) -> bool:
    """Whether an update only drops the pending tasks."""
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
    """Find the author of an update; None to keep the pending tasks."""
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
    return last_updater(state) if state.versions else plan.start


def last_updater(state: RunState) -> NodePlan | None:
    """Find the node that wrote last; None if there were several, or a caller's Command did."""
    plan = state.plan
    newest: dict[str, Any] = {}
    for name, seen in state.seen.items():
        if name in plan.nodes and seen:
            newest[name] = max(seen.values())
    if not newest:
        due = due_tasks(state, None)
        return plan.start if not due or any(task.name == START for task in due) else None
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
    try:
        writes, dropped = writes_and_dropped(plan, node, values)
    except InvalidUpdateError as error:
        if error.code is ErrorCode.INVALID_GRAPH_NODE_RETURN_VALUE:
            raise InvalidUpdateError(
                f"Expected dict, got {shown(values)} as an update",
                do="pass a dict of state keys, an object of the state's schema, a Command, or None",
                code=error.code,
            ) from None
        what = _of_the_update(node, error.what)
        if what != error.what:
            raise InvalidUpdateError(what, do=error.do, code=error.code) from None
        raise
    if dropped:
        what = _of_the_update(node, dropped[0])
        raise InvalidUpdateError(what, do="update known keys only; nothing was written")
    return writes


def kept_routes(state: RunState, update: NodeUpdate) -> list[Write]:
    """Make the writes that keep the targets to which an update's author has gone by itself.

    Those of its edges are left out: its edges decide anew, and so are all targets that one of its
    routers might have chosen.

    Args:
        state: before the update.
    """
    node, plan = update.node, state.plan
    if node is None or node is not last_updater(state) or has_route(plan, update):
        return []
    edges = {channel for channel, _ in node.targets}
    for branch in node.branches:
        if branch.ends is None:
            return []
        edges.update(edge_to(str(end)) for end in branch.ends.values())
    due = [task for task in due_tasks(state, None) if task.path[0] != PUSH]
    led = {channel for task in due for channel in task.triggers if channel.startswith(BRANCH_TO)}
    sends = () if node.branches else state.values.get(TASKS, ())
    return [*((channel, None) for channel in sorted(led - edges)), *((TASKS, s) for s in sends)]


def has_route(plan: Plan, update: NodeUpdate) -> bool:
    """Whether the values of an update say themselves where to go, be it to the end."""
    if plan.bare_state and not isinstance(update.values, (Command, Send)):
        return False
    parts = update.values if isinstance(update.values, (list, tuple)) else (update.values,)
    return any(isinstance(p, Send) or (isinstance(p, Command) and bool(p.goto)) for p in parts)


def leaves_nothing(state: RunState, update: NodeUpdate, pending: Sequence[Task]) -> bool:
    """Whether an update has ended the thread where its caller can't have meant it.

    Args:
        state: after the update.
        pending: the tasks that were due before it.
    """
    node = update.node
    if node is None or node.branches or has_route(state.plan, update) or due_tasks(state, None):
        return False
    if any(end != END for end in node.ends):
        return bool(pending) or not update.inferred
    return bool(pending) and all(task.name != node.name for task in pending)


def _of_the_update(node: NodePlan, sentence: str) -> str:
    """Make a sentence about a node's return value one about the update, which the caller gave."""
    returned = f"node {node.name!r} returned"
    if not sentence.startswith(returned):
        return sentence
    return f"the update has{sentence.removeprefix(returned)}"


def _only_known(plan: Plan, values: Any) -> list[Write]:
    writes = list(updates_in(plan.start, values))
    unknown = [key for key, _ in writes if key not in plan.state_keys]
    if unknown:
        raise InvalidUpdateError(
            f"the update has {unknown[0]!r}, which is not a channel of this graph",
            do=did_you_mean(unknown[0], plan.state_keys),
        )
    return writes


def supersteps_of(updates: Any) -> list[list[StateUpdate]]:
    """Read the argument of `bulk_update_state` as supersteps.

    Args:
        updates: a list of supersteps, each a list of updates; or a flat list of updates, each of
            which is a superstep. An update is a `StateUpdate` or `(values, as_node, task_id)`.
    Raises:
        InvalidConfigError: the list or a superstep is empty, or an update has another form.
    """
    steps = [[_one(item)] if _is_update(item) else [_one(u) for u in item] for item in updates]
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


class Updating:
    """Supersteps of updates that one save will hold.

    Args:
        state: at the base; moves on with each superstep.
        known: the attempts in the base's ledger, by task id.
        superseded: whether the base has other children, which its ledger belongs to.
    """

    def __init__(
        self, state: RunState, known: dict[str, Attempt], *, superseded: bool = False
    ) -> None:
        self.state = state
        self._known = known
        self._beside = not superseded
        self._head = state.head
        self._ledger: list[LedgerEntry] = []
        self._points: list[NewCheckpoint] = []
        self.stranded: NodePlan | None = None
        """The author of the last superstep, if its update leaves nothing to run."""

    def clear(self) -> None:
        """Fold in the tasks that have finished and drop the others."""
        state, known = self.state, self._known
        tasks = with_handlers(state, due_tasks(state, None), known)
        done = [
            TaskWrites(t.name, t.triggers, (known[t.id].writes if t.id in known else None) or ())
            for t in in_path_order(tasks)
        ]
        self._end("update", apply(state, done) if done else set(), as_node=END)

    def as_input(self, values: Any) -> None:
        """Apply an input; nothing that is due is dropped.

        Raises:
            InvalidUpdateError, EmptyInputError: the input can't be taken.
        """
        if values is None:
            raise InvalidUpdateError("Received no input writes", do="pass an input as the values")
        state = self.state
        fresh, writes = is_fresh(state), first_writes(state, values)
        changed = apply(state, [TaskWrites(INPUT, (), writes)])
        if fresh and state.plan.defaults:
            keep_defaults(state, first_update(state, values))
        self._end("input", changed, as_node=INPUT)

    def copy(self) -> None:
        """Make a sibling of the base: the same state and parent, none of its tasks' work."""
        parent = self.state.parent
        # The parent's ledger leads to the base, not to the copy.
        self.state.whole |= self.state.plan.deltas
        self._end("fork", set(), as_node=COPY)
        self._points[-1] = msgspec.structs.replace(self._points[-1], parent=parent)

    def fold(self, updates: Sequence[tuple[NodeUpdate, list[Write]]]) -> None:
        """Fold the writes of one superstep's updates, in their order.

        Raises:
            InvalidUpdateError: a channel refuses them.
        """
        before = due_tasks(self.state, None)
        prepared = self._prepared(before)
        updates = [(update, [*own, *kept_routes(self.state, update)]) for update, own in updates]
        fresh = is_fresh(self.state)
        ran: list[TaskWrites] = []
        for place, (update, writes) in enumerate(updates):
            if update.node is None:
                ran.append(TaskWrites(INPUT, (), tuple(writes)))
                continue
            # A trigger makes ephemeral cells age, so that the edges of other tasks are dropped.
            # INTERRUPT is not a channel, so it marks nothing as seen or consumed.
            ran.append(TaskWrites(update.node.name, (INTERRUPT,), tuple(writes)))
            if self._beside:
                self._ledger.append(self._entry(update, place, prepared, tuple(writes)))
        names = [update.node.name if update.node else None for update, _ in updates]
        changed = apply(self.state, ran)
        if fresh and self.state.plan.defaults:
            keep_defaults(self.state, ())
        self._end(
            "update",
            changed,
            as_node=names[0] if len(names) == 1 else names,
            as_node_inferred=updates[0][0].inferred,
        )
        ends = [update for update, _ in updates if leaves_nothing(self.state, update, before)]
        self.stranded = ends[0].node if ends else None

    def _prepared(self, due: Sequence[Task]) -> dict[str, list[Task]]:
        """The tasks that are due and have not finished, by node."""
        by_node: dict[str, list[Task]] = {}
        for task in due:
            attempt = self._known.get(task.id)
            if attempt is None or attempt.writes is None:
                by_node.setdefault(task.name, []).append(task)
        return by_node

    def _entry(
        self,
        update: NodeUpdate,
        place: int,
        prepared: dict[str, list[Task]],
        writes: tuple[Write, ...],
    ) -> LedgerEntry:
        """Make an update's row beside the base: the result of a due task, if there is one."""
        assert update.node is not None
        name, state = update.node.name, self.state
        waiting = prepared.get(name, [])
        named = [task for task in waiting if task.id == update.task]
        task = (named or waiting or [None])[0]
        if task is not None and (named or update.task is None):
            waiting.remove(task)
        else:
            own = task_id(state.checkpoint, state.namespace, INTERRUPT, str(place))
            task = Task(update.task or own, name, (INTERRUPT, name), (), None)
        return result_entry(state, task, TaskResult(task.id, writes))

    def _end(self, source: str, changed: set[str], **metadata: Any) -> None:
        state = self.state
        # The step of a thread's first checkpoint is -1 for an input, else 0.
        state.step = max(state.step, -1) if source != "input" else state.step
        new_superstep(state, source, changed)
        state.updated = None
        if state.anchor is None:
            state.parent = None
        state.anchor = state.checkpoint
        self._points.append(new_checkpoint(state, due_tasks(state, None), metadata))
        self._known, self._beside = {}, True

    def save(self) -> Save:
        """Make one save of everything: claim, checkpoints and final status."""
        state = self.state
        state.head = self._head
        return save(
            state,
            claim=ClaimIntent(self._head, "sync"),
            ledger=tuple(self._ledger),
            checkpoints=tuple(self._points),
            ends="updated",
        )


def fork(state: RunState, restored: Restored, origin: Mapping[str, str]) -> Save:
    """Make the save of the copy.

    Args:
        state: new; of the thread that the copy begins.
        restored: the checkpoint to copy.
        origin: thread, namespace and id of the origin, for the metadata.
    """
    restore(state, restored)
    state.head = state.anchor = state.parent = None
    state.source = "fork"
    state.checkpoint = state.mint(state.step, None)
    state.dirty = set(state.versions)
    state.updated = None
    point = new_checkpoint(state, due_tasks(state, None), {"forked_from": dict(origin)})
    return save(state, claim=ClaimIntent(None, "sync"), checkpoints=(point,), ends="updated")
