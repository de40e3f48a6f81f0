"""Time travel: a run from a checkpoint that is not the thread's head.

It makes a branch. A marker checkpoint with `source="fork"`, whose parent is the old checkpoint,
begins it; in exit mode the marker is left out unless it needs answers beside it. The pending
writes of the old checkpoint stay as they are and belong to its other children. So:

| beside the old checkpoint       | on the branch                                                |
|---------------------------------|--------------------------------------------------------------|
| finished and failed tasks       | run (again)                                                  |
| questions, and their answers    | are asked again, unless the Command answers the last of them |
| writes of accepted Commands     | are part of the state                                        |
| the Command of this run         | its writes are in the marker, its answers beside it          |

A subgraph that is replayed gets a new namespace (`transplant`): the task that runs it is on another
branch and has another id.

Source: docs/decisions/0023-a-replay-is-a-branch.md.
"""

from typing import Any

import msgspec

from actorgraph.errors import UnknownInterruptError
from actorgraph.superstep import pending_writes as pending
from actorgraph.superstep.advance import new_superstep
from actorgraph.superstep.answers import already_resumed, ambiguous, out_of_order
from actorgraph.superstep.apply import TaskWrites, apply
from actorgraph.superstep.resume import nothing_due, restore_tasks, start_from_head
from actorgraph.superstep.run_state import RunState
from actorgraph.superstep.saves import control_entry, new_checkpoint, save
from actorgraph.superstep.tasks import due_tasks
from actorgraph.values.checkpoint import Restored
from actorgraph.values.constants import INPUT, INTERRUPT, RESUME
from actorgraph.values.ids import is_interrupt_id
from actorgraph.values.policies import Durability
from actorgraph.values.run import ClaimIntent, Effect, LedgerEntry, Task, TaskPath, Write

TaskPlace = tuple[str, TaskPath]
"""The node and path of a task, which are the same on every branch; its id is not."""


class ReplayAnswers(msgspec.Struct, frozen=True):
    """The answers that a branch begins with.

    Attributes:
        own: by task, the answers to its questions in their order.
        unaddressed: answers for the first questions asked.
    """

    own: dict[TaskPlace, tuple[Any, ...]]
    unaddressed: tuple[Any, ...] = ()


class _AskedQuestion(msgspec.Struct, frozen=True):
    """A question of the old checkpoint.

    Attributes:
        number: its number among the task's own, from 0; None for one of a subgraph.
        before: the task's answers to the questions before it.
    """

    task: Task
    number: int | None
    before: tuple[Any, ...]


def is_replay(restored: Restored) -> bool:
    """Whether a run from this checkpoint is a replay: it is not the thread's head."""
    return restored.id != restored.head


def replay(
    state: RunState, restored: Restored, writes: tuple[Write, ...] = (), resume: Any = None
) -> list[Effect]:
    """Begin a branch at an old checkpoint; at a finished one, end without a write.

    Args:
        state: at that checkpoint.
        writes: a Command's update and goto.
        resume: its answer, or None.
    Raises:
        UnknownInterruptError, AlreadyResumedError: the answer fits no question.
    """
    answers = given_answers(state, restored, resume)
    head, old = state.head, due_tasks(state, None)
    state.has_output = True
    if not old and not writes:
        if resume is not None:
            raise already_resumed(state)
        return nothing_due(state)
    changed = apply(state, [TaskWrites(INPUT, (), writes)]) if writes else set[str]()
    state.seen[INTERRUPT] = dict(state.versions)
    new_superstep(state, "fork", changed)
    tasks = due_tasks(state, None)
    state.unaddressed_answer = list(answers.unaddressed)
    entries = carried(state, tasks, answers)
    restore_tasks(state, tasks, (), entries)
    effects: list[Effect] = []
    if state.has_saver:
        claim = ClaimIntent(head, state.policy.durability.value)
        points = () if _is_left_out(state, entries) else (new_checkpoint(state, tasks),)
        ends = None if tasks else "success"
        effects.append(save(state, claim=claim, checkpoints=points, ledger=entries, ends=ends))
        state.unsaved_steps.clear()
    return start_from_head(state, tasks, effects, ())


def _is_left_out(state: RunState, entries: tuple[LedgerEntry, ...]) -> bool:
    """Whether the marker is not stored: in exit mode, unless there are answers beside it."""
    return state.policy.durability is Durability.EXIT and bool(state.tasks) and not entries


def given_answers(state: RunState, restored: Restored, resume: Any) -> ReplayAnswers:
    """Match a resume with the questions of an old checkpoint, answered since or not.

    The checkpoint shows the last question of each task; that one is answered anew, and the
    answers before it are kept.

    Raises:
        UnknownInterruptError: it names none of several questions, or only unknown ones.
    """
    if resume is None:
        return ReplayAnswers({})
    asked = asked_at(state, restored)
    by_id = isinstance(resume, dict) and all(map(is_interrupt_id, resume))
    if by_id and not resume:
        return ReplayAnswers({})
    if not by_id:
        if len(asked) > 1:
            raise ambiguous(state, list(asked))
        if not asked:
            return ReplayAnswers({}, (resume,))
        resume = dict.fromkeys(asked, resume)
    fitting = [identifier for identifier in asked if identifier in resume]
    if not fitting:
        raise UnknownInterruptError(
            f"Unknown interrupt {next(iter(resume))} at this checkpoint of thread "
            f"{state.thread_id!r}",
            do="take the ids from get_state(config) with the checkpoint's config",
            reason="not_pending",
            interrupt_ids=tuple(resume),
            pending_ids=tuple(asked),
        )
    return _given(state, asked, {identifier: resume[identifier] for identifier in fitting})


def asked_at(state: RunState, restored: Restored) -> dict[str, _AskedQuestion]:
    """Find the questions that the tasks of a checkpoint have asked, by id."""
    known = pending.attempts(restored.ledger)
    questions: dict[str, _AskedQuestion] = {}
    for task in due_tasks(state, None):
        attempt = known.get(task.id)
        if attempt is None:
            continue
        own = pending.own_ids(task, len(attempt.answers) + len(attempt.interrupts))
        first = min((own[i.id] for i in attempt.interrupts if i.id in own), default=0)
        for question in attempt.interrupts:
            number = own.get(question.id)
            questions[question.id] = _AskedQuestion(task, number, attempt.answers[:first])
    return questions


def _given(
    state: RunState, asked: dict[str, _AskedQuestion], resume: dict[str, Any]
) -> ReplayAnswers:
    own: dict[TaskPlace, tuple[Any, ...]] = {}
    below: list[Any] = []
    for identifier, answer in sorted(resume.items(), key=lambda pair: asked[pair[0]].number or 0):
        question = asked[identifier]
        if question.number is None:
            below.append(answer)
            continue
        place = (question.task.name, question.task.path)
        before = own.get(place, question.before)
        if len(before) != question.number:
            raise out_of_order(question.task.name)
        own[place] = (*before, answer)
    if below and len(asked) > 1:
        # The new tasks' subgraphs ask under other ids: which of them an answer is for isn't known.
        if state.nested is None:
            raise ambiguous(state, list(asked))
        below = []  # a run below can't refuse them any more; the questions are asked again
    return ReplayAnswers(own, tuple(below))


def carried(state: RunState, tasks: list[Task], answers: ReplayAnswers) -> tuple[LedgerEntry, ...]:
    """Make rows of answers that tasks begin with, so that a crash doesn't lose them."""
    rows = [
        control_entry(state, task, RESUME, list(answers.own[task.name, task.path]))
        for task in tasks
        if (task.name, task.path) in answers.own
    ]
    if answers.unaddressed:
        rows.append(control_entry(state, None, RESUME, list(answers.unaddressed)))
    return tuple(rows)


def transplant(state: RunState) -> list[Effect]:
    """Begin a new namespace with a checkpoint of another one; its due tasks run again.

    Args:
        state: at that checkpoint.
    """
    state.head = state.anchor = None
    state.seen[INTERRUPT] = dict(state.versions)
    state.dirty = set(state.versions)
    state.has_output = True
    new_superstep(state, "fork", set())
    state.parent = None
    tasks = due_tasks(state, None)
    restore_tasks(state, tasks, (), ())
    effects: list[Effect] = []
    if state.saves_at_once:
        effects.append(save(state, checkpoints=(new_checkpoint(state, tasks),)))
        state.unsaved_steps.clear()
    return start_from_head(state, tasks, effects, ())
