"""Match the answers of a resume with open questions, and take refused answers back.

An answer reaches a question by its id, or without one if only one question waits. It becomes a
control row beside the checkpoint, stored with the run's claim, so that an accepted answer survives
a crash. Answers to a task's own questions are kept in the order of the questions; those to
questions of a subgraph are kept by id and passed down to it.

A node may refuse an answer (`InvalidResumeError`). The answer is taken back by a later generation
of the row that brought it, and the question waits again. The task counts as paused, so that its
siblings run to their ends; then the run fails with the error.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from actorgraph.errors import (
    AlreadyResumedError,
    AnsweredInterruptError,
    InvalidConfigError,
    InvalidResumeError,
    UnknownInterruptError,
)
from actorgraph.superstep import chunks
from actorgraph.superstep import pending_writes as pending
from actorgraph.superstep.pending_writes import Attempt
from actorgraph.superstep.question_times import overdue_answers
from actorgraph.superstep.run_state import RunState
from actorgraph.superstep.saves import control_entry
from actorgraph.superstep.task_failures import with_handlers
from actorgraph.superstep.tasks import due_tasks
from actorgraph.values.checkpoint import Restored
from actorgraph.values.commands import Command, Interrupt, mark_invalid_resume
from actorgraph.values.constants import INTERRUPT, RESUME, ROUTED
from actorgraph.values.ids import is_interrupt_id
from actorgraph.values.response_schemas import misfit
from actorgraph.values.run import Failed, LedgerEntry, Task

Asking = dict[str, tuple[Task, Attempt]]
AnswerRows = tuple[list[LedgerEntry], tuple[str, ...]]
"""The ledger rows of a resume, and the ids of the questions that it answers."""


def answers(state: RunState, restored: Restored, resume: Any) -> AnswerRows:
    """Make the rows of a Command's `resume`: each answer goes to the task that asked.

    Args:
        resume: one answer, or `{interrupt id: answer}`.
    Raises:
        UnknownInterruptError: several questions wait and the answer names none of them.
        AlreadyResumedError: no question waits for this answer.
    """
    known = pending.attempts(restored.ledger)
    tasks = with_handlers(state, due_tasks(state, None), known)
    asking = _asking(tasks, known)
    by_id = isinstance(resume, dict) and all(map(is_interrupt_id, resume))
    if state.policy.strict_resume and not by_id and _seems_by_id(resume):
        _check_all_wait(state, resume, asking)
    if by_id:
        if state.policy.strict_resume:
            _check_all_wait(state, resume, asking)
        return _by_id(state, asking, resume) if resume else ([], ())
    asleep = [i for i in asking if _question(asking, i).sleeps]
    for identifier in asleep:  # only the clock, or an answer by id, ends a sleep
        del asking[identifier]
    if len(asking) > 1:
        raise ambiguous(state, list(asking))
    if asking:
        return _by_id(state, asking, dict.fromkeys(asking, resume))
    if asleep:
        raise sleeping(state.thread_id, asleep)
    if not tasks or any(known[task.id].interrupts for task in tasks if task.id in known):
        raise already_resumed(state)
    state.unaddressed_answer = [resume]
    return [control_entry(state, None, RESUME, [resume])], ()


Refusal = Callable[[Interrupt, Any], str | None]
"""Says why a question's answer is wrong; None if it isn't, as far as that can be known."""


def by_schema(question: Interrupt, answer: Any) -> str | None:
    """Judge an answer by the JSON schema that its question shows."""
    return misfit(answer, question.response_schema)


def check_resume(
    resume: Any, asked: Sequence[Interrupt], thread_id: str, refusal: Refusal, *, waits: bool
) -> None:
    """Check a Command's `resume` before a run is accepted that brings it.

    Args:
        resume: one answer, or `{interrupt id: answer}`.
        asked: the questions of the thread that wait.
        waits: whether the thread has a node to run, which may take an answer to a later question.
    Raises:
        UnknownInterruptError: several questions wait and the answer names none of them.
        AlreadyResumedError: no question waits for this answer.
        InvalidResumeError: it is not what its question expects.
    """
    waiting = {question.id: question for question in asked}
    awake = [question for question in asked if not question.sleeps]
    if isinstance(resume, dict) and all(map(is_interrupt_id, resume)):
        by_id = {key: resume[key] for key in resume if key in waiting}
        if resume and not by_id and (asked or not waits):
            raise not_waiting(thread_id, sorted(resume), sorted(waiting))
    elif len(awake) > 1:
        raise several_wait(thread_id, [question.id for question in awake])
    elif not asked and not waits:
        raise not_waiting(thread_id)
    elif asked and not awake:
        raise sleeping(thread_id, list(waiting))
    else:
        by_id = {question.id: resume for question in awake}
    for identifier, answer in by_id.items():
        _check_fits(waiting[identifier], answer, refusal)


def _check_fits(question: Interrupt, answer: Any, refusal: Refusal) -> None:
    wrong = refusal(question, answer)
    if wrong is None:
        return
    refused = InvalidResumeError(
        f"the answer to {question.id} doesn't fit its schema: {wrong}",
        do="answer again as interrupt.response_schema says; the question stays open",
    )
    mark_invalid_resume(refused, question)
    raise refused


def check_answers(
    by_id: Mapping[str, Any],
    asked: Iterable[Interrupt],
    thread_id: str,
    refusal: Refusal = by_schema,
) -> None:
    """Check answers before a run is accepted that brings them.

    Args:
        by_id: interrupt id -> answer.
        asked: the questions of the thread that wait.
        refusal: judges an answer.
    Raises:
        UnknownInterruptError: `by_id` is empty, or a key isn't the id of a question.
        AlreadyResumedError: a question doesn't wait any more: it was answered, or the thread went
            on without it.
        InvalidResumeError: an answer doesn't fit its question's `response_schema`.
    """
    waiting = {question.id: question for question in asked}
    do = "take the ids from get_state(config).interrupts"
    if not by_id:
        raise UnknownInterruptError(
            "the answers name no interrupt", do=do, reason="empty_map", pending_ids=tuple(waiting)
        )
    for identifier, answer in by_id.items():
        if not is_interrupt_id(identifier):
            raise UnknownInterruptError(
                f"{identifier!r} is not the id of an interrupt; thread {thread_id!r} waits for "
                f"{', '.join(waiting) or 'none'}",
                do=do,
                reason="not_pending",
                interrupt_ids=[str(identifier)],
                pending_ids=tuple(waiting),
            )
        question = waiting.get(identifier)
        if question is None:
            raise not_waiting(thread_id, [identifier], sorted(waiting))
        _check_fits(question, answer, refusal)


def with_answers(command: Any, by_id: Mapping[str, Any]) -> Command[Any]:
    """Add answers by id to a Command, or make one.

    Raises:
        InvalidConfigError: it has an answer already, or isn't a Command.
    """
    if command is None:
        return Command(resume=dict(by_id))
    if not isinstance(command, Command) or cast("Command[Any]", command).resume is not None:
        raise InvalidConfigError(
            "an answer is given twice: by answers= and without an id",
            do="pass answers={id: answer}, and a Command for an update or a goto only",
        )
    return replace(cast("Command[Any]", command), resume=dict(by_id))


def routed_answers(state: RunState, restored: Restored, routed: Mapping[str, Any]) -> AnswerRows:
    """Make the rows of a subgraph's run that goes on, from the answers that its parent got.

    Args:
        routed: interrupt id -> answer; those to questions of other runs are left out.
    """
    known = pending.attempts(restored.ledger)
    asking = _asking(with_handlers(state, due_tasks(state, None), known), known)
    fitting = {identifier: routed[identifier] for identifier in asking if identifier in routed}
    return _by_id(state, asking, fitting) if fitting else ([], ())


def _seems_by_id(resume: Any) -> bool:
    """Whether a dict is more likely a map of answers with a wrong id than an answer itself."""
    if not isinstance(resume, dict):
        return False
    return any(isinstance(key, str) and _ID_LIKE.fullmatch(key) for key in resume)


_ID_LIKE = re.compile("[0-9a-fA-F-]{16,}")
"""Ids of interrupts, of tasks and runs, and parts of them."""


def _asking(tasks: list[Task], known: dict[str, Attempt]) -> Asking:
    return {
        question.id: (task, known[task.id])
        for task in tasks
        if task.id in known
        for question in pending.open_questions(task, known[task.id])
    }


def overdue(state: RunState, restored: Restored) -> dict[str, Any]:
    """The answers that open questions give themselves by the time at which the run begins."""
    known = pending.attempts(restored.ledger)
    asking = _asking(with_handlers(state, due_tasks(state, None), known), known)
    return overdue_answers((_question(asking, i) for i in asking), state.now)


def _question(asking: Asking, identifier: str) -> Interrupt:
    return next(q for q in asking[identifier][1].interrupts if q.id == identifier)


def _by_id(state: RunState, asking: Asking, resume: dict[str, Any]) -> AnswerRows:
    fitting = [identifier for identifier in resume if identifier in asking]
    if not fitting:
        raise already_resumed(state, sorted(resume), sorted(asking))
    concerned = {task.id: (task, attempt) for task, attempt in (asking[i] for i in fitting)}
    rows: list[LedgerEntry] = []
    for task, attempt in concerned.values():
        rows.extend(_rows(state, task, attempt, resume))
    return rows, tuple(fitting)


def _check_all_wait(state: RunState, resume: dict[str, Any], asking: Asking) -> None:
    unknown = sorted(resume.keys() - asking.keys())
    if resume and not unknown:
        return
    # An id in the form of an interrupt's may have been answered, by another process even now.
    well_formed = bool(unknown) and all(map(is_interrupt_id, unknown))
    raise (AnsweredInterruptError if well_formed else UnknownInterruptError)(
        f"Unknown or already answered interrupt {unknown[0]} of thread {state.thread_id!r}"
        if unknown
        else "The resume map names no interrupt",
        do="take the ids from get_state(config).interrupts; those in pending_ids still wait",
        reason="not_pending" if unknown else "empty_map",
        interrupt_ids=unknown,
        pending_ids=sorted(asking),
    )


def _rows(
    state: RunState, task: Task, attempt: Attempt, resume: dict[str, Any]
) -> list[LedgerEntry]:
    own_ids = pending.own_ids(task, len(attempt.answers) + len(attempt.interrupts))
    own = [i for i in attempt.interrupts if i.id in own_ids]
    below = {i.id: resume[i.id] for i in attempt.interrupts if _is_below(i, own_ids, resume)}
    own_answers = [resume[i.id] for i in own if i.id in resume]
    if any(i.id not in resume for i in own[: len(own_answers)]):
        raise out_of_order(task.name)
    rows: list[LedgerEntry] = []
    if own_answers:
        rows.append(control_entry(state, task, RESUME, [*attempt.answers, *own_answers]))
    if below:
        rows.append(control_entry(state, task, ROUTED, below))
    return rows


def _is_below(question: Interrupt, own: dict[str, int], resume: dict[str, Any]) -> bool:
    return question.id not in own and question.id in resume


def ambiguous(state: RunState, ids: Sequence[str]) -> UnknownInterruptError:
    """Make the error for one answer without an id where several questions wait."""
    return several_wait(state.thread_id, ids)


def several_wait(thread_id: str, ids: Sequence[str]) -> UnknownInterruptError:
    """As `ambiguous`, of a thread by its id."""
    return UnknownInterruptError(
        "When there are multiple pending interrupts, you must specify the interrupt id "
        f"when resuming; thread {thread_id!r} has {len(ids)}",
        do="Command(resume={interrupt.id: answer, ...})",
        reason="ambiguous",
        pending_ids=ids,
    )


def out_of_order(name: str) -> UnknownInterruptError:
    """Make the error for an answer to a later question while an earlier one stays open."""
    return UnknownInterruptError(
        f"node {name!r} asked several questions at once; a later one was answered, an earlier "
        "one was not",
        do="answer them in their order, or all in one Command(resume={id: answer, ...})",
    )


def already_resumed(
    state: RunState, answered: Sequence[str] = (), asking: Sequence[str] = ()
) -> AlreadyResumedError:
    """Make the error for an answer without an open question.

    Args:
        answered: the ids that the answer names.
        asking: those of the open questions.
    """
    return not_waiting(state.thread_id, answered, asking)


def not_waiting(
    thread_id: str, answered: Sequence[str] = (), asking: Sequence[str] = ()
) -> AlreadyResumedError:
    """As `already_resumed`, of a thread by its id."""
    what = f"no question of thread {thread_id!r} waits for this answer"
    do = "read get_state(config).interrupts to see what waits; None goes on without an answer"
    if asking:
        what += (
            f": no open question has the id {answered[0]!r}; it was answered, or is not of this "
        )
        what += "thread"
        more = f" and {len(asking) - 1} more" if len(asking) > 1 else ""
        do = f"answer an open one: Command(resume={{{asking[0]!r}: ...}}){more}; they are in "
        do += "get_state(config).interrupts"
    return AlreadyResumedError(what, do=do)


def sleeping(thread_id: str, ids: Sequence[str]) -> AlreadyResumedError:
    """Make the error for an answer without an id to a thread that sleeps."""
    return AlreadyResumedError(
        f"thread {thread_id!r} asks nothing: it sleeps; the answer was not stored",
        do=f"wait for it, or end the sleep by its id: Command(resume={{{ids[0]!r}: None}})",
    )


def consumed(
    state: RunState, task: Task, answers: tuple[Any, ...], took_unaddressed: bool
) -> tuple[LedgerEntry, ...]:
    """Make the rows for the answers that a task has used and that its own rows don't have yet.

    Args:
        answers: those to its own questions, in their order.
        took_unaddressed: whether it used the answer that was given without an id.
    """
    rows: list[LedgerEntry] = []
    if len(answers) > len(task.answers):
        rows.append(control_entry(state, task, RESUME, list(answers)))
    if took_unaddressed and state.unaddressed_answer:
        state.unaddressed_answer = []
        state.generation += 1  # only a later generation replaces the row of the answer
        rows.append(control_entry(state, None, RESUME, []))
    return tuple(rows)


def take_answer_back(
    state: RunState, task: Task, question: Interrupt, error: BaseException
) -> tuple[LedgerEntry, ...]:
    """Make the rows after which the question of a task waits again.

    Args:
        task: the task that failed.
        question: its own, or one of a subgraph that it runs.
        error: the error that refused the answer.
    """
    state.refused = error
    state.generation += 1
    timing = state.timings.get(question.id)
    if timing is not None:
        # Its own answer that is refused would be given again at once.
        given = (*task.answers, *task.routed.values())
        own = timing.due is not None and timing.own_answer in given
        question = replace(question, timing=replace(timing, due=None) if own else timing)
    state.interrupted[task.id] = (question,)
    chunks.hold_interrupt(state, (question,))
    chunks.hold_task(state, task, interrupts=(question,))
    asked = control_entry(state, task, INTERRUPT, [question])
    place = pending.own_ids(task, len(task.answers)).get(question.id)
    if place is not None:
        return control_entry(state, task, RESUME, list(task.answers[:place])), asked
    if question.id in task.routed:
        return control_entry(state, task, ROUTED, {question.id: None}), asked
    state.unaddressed_answer = []  # neither its own nor routed: the answer was given without an id
    return control_entry(state, None, RESUME, []), asked


def refused(state: RunState) -> Failed | None:
    """Return the outcome of a run that brought a refused answer; None if it brought none."""
    return Failed(state.refused) if state.refused is not None else None
