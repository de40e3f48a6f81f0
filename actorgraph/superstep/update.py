"""update_state: supersteps from outside of a run."""

from collections.abc import Sequence
from typing import Any

import msgspec

from actorgraph.errors import InvalidUpdateError
from actorgraph.superstep.advance import new_superstep
from actorgraph.superstep.apply import TaskWrites, apply
from actorgraph.superstep.begin import first_writes
from actorgraph.superstep.handlers import with_handlers
from actorgraph.superstep.pending import Attempt
from actorgraph.superstep.saves import new_checkpoint, result_entry, save
from actorgraph.superstep.state import RunState
from actorgraph.superstep.tasks import due_tasks, path_key
from actorgraph.superstep.updates import COPY, NodeUpdate
from actorgraph.values.constants import END, INPUT, INTERRUPT
from actorgraph.values.ids import task_id
from actorgraph.values.run import (
    ClaimIntent,
    LedgerEntry,
    NewCheckpoint,
    Save,
    Task,
    TaskResult,
    Write,
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

    def clear(self) -> None:
        """Fold in the tasks that have finished and drop the others."""
        state, known = self.state, self._known
        tasks = with_handlers(state, due_tasks(state, None), known)
        done = [
            TaskWrites(t.name, t.triggers, (known[t.id].writes if t.id in known else None) or ())
            for t in sorted(tasks, key=lambda t: path_key(t.path))
        ]
        self._end("update", apply(state, done) if done else set(), as_node=END)

    def as_input(self, values: Any) -> None:
        """Apply an input; nothing that is due is dropped.

        Raises:
            InvalidUpdateError, EmptyInputError: the input can't be taken.
        """
        if values is None:
            raise InvalidUpdateError("Received no input writes", do="pass an input as the values")
        writes = first_writes(self.state, values)
        self._end("input", apply(self.state, [TaskWrites(INPUT, (), writes)]), as_node=INPUT)

    def copy(self) -> None:
        """Make a sibling of the base: the same state and parent, none of its tasks' work."""
        parent = self.state.parent
        # The parent's ledger leads to the base, not to the copy.
        self.state.whole.update(self.state.plan.deltas)
        self._end("fork", set(), as_node=COPY)
        self.state.parent = parent
        self._points[-1] = msgspec.structs.replace(self._points[-1], parent=parent)

    def fold(self, updates: Sequence[tuple[NodeUpdate, list[Write]]]) -> None:
        """Fold the writes of one superstep's updates, in their order.

        Raises:
            InvalidUpdateError: a channel refuses them.
        """
        prepared = self._prepared()
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
        self._end(
            "update",
            apply(self.state, ran),
            as_node=names[0] if len(names) == 1 else names,
            as_node_inferred=updates[0][0].inferred,
        )

    def _prepared(self) -> dict[str, list[Task]]:
        """The tasks that are due and have not finished, by node."""
        found: dict[str, list[Task]] = {}
        for task in due_tasks(self.state, None):
            attempt = self._known.get(task.id)
            if attempt is None or attempt.writes is None:
                found.setdefault(task.name, []).append(task)
        return found

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
