"""Calls: tasks that a running task starts with a `@task` function, in the same superstep.

A call's result is a row of the superstep's ledger, under an id that follows from the calling task
and the call's number. So when the caller runs again, after a question, a crash or a failure, its
n-th call finds what its n-th call returned. Results go to the caller and into no channel; the
superstep ends when its calls have ended too. A caller that waits for calls holds no place
under `max_concurrency`. Errors go to the caller and are not kept: a failed call runs again.
"""

from collections.abc import Iterable

from actorgraph.superstep import chunks
from actorgraph.superstep.pending import Attempt
from actorgraph.superstep.saves import control_entry, keep, result_entry, save
from actorgraph.superstep.state import RunState
from actorgraph.values.commands import Interrupt
from actorgraph.values.constants import CALL, INTERRUPT, RETURN
from actorgraph.values.run import (
    AnswerCall,
    Effect,
    Path,
    StartTask,
    Task,
    TaskCalled,
    TaskInterrupted,
    TaskResult,
)


def is_call(path: Path) -> bool:
    """Whether a task was started by another one."""
    return len(path) > 2 and path[-1] == CALL


def take_back(state: RunState, known: Iterable[tuple[str, Attempt]]) -> None:
    """Note the results of calls that a stored superstep has already."""
    for identifier, attempt in known:
        for channel, value in attempt.writes or ():
            if channel == RETURN and identifier not in state.tasks:
                state.returned[identifier] = value


def on_call(state: RunState, event: TaskCalled) -> list[Effect]:
    """A task has called a function: answer at once what is known, else have it run."""
    task = event.task
    if task.id in state.returned:
        return [AnswerCall(task.id, state.returned[task.id])]
    if state.outcome is not None:
        return [AnswerCall(task.id, gone=True)]
    state.callers.setdefault(event.caller, set()).add(task.id)
    if task.id not in state.running:  # an earlier attempt of the caller may have started it
        state.calls_due.append(task)
    return []


def start_calls(state: RunState) -> list[Effect]:
    """Start the calls that may run now."""
    effects: list[Effect] = []
    limit = state.policy.max_concurrency
    while state.calls_due and (limit is None or active(state) < limit):
        task = state.calls_due.popleft()
        hold_start(state, task)
        state.running[task.id] = task
        effects.append(StartTask(task, task.input))
    return effects


def active(state: RunState) -> int:
    """The running tasks that are not waiting for their calls."""
    return sum(not state.callers.get(identifier) for identifier in state.running)


def on_return(state: RunState, task: Task, result: TaskResult) -> list[Effect]:
    """A call has returned: keep its result and hand it over."""
    _ended(state, task)
    value = result.writes[0][1]
    state.returned[task.id] = value
    kept = keep(state, result_entry(state, task, result))
    effects: list[Effect] = [save(state, ledger=kept)] if kept else []
    if chunks.wants(state, "updates"):
        chunks.hold(state, "updates", {task.name: value})
    chunks.hold_ended(state, task, {"result": {RETURN: value}})
    return [*effects, AnswerCall(task.id, value)]


def on_error(state: RunState, task: Task, error: BaseException) -> list[Effect]:
    """A call has failed: that is its caller's to handle."""
    _ended(state, task)
    chunks.hold_ended(state, task, {"error": repr(error)})
    return [AnswerCall(task.id, error=error)]


def on_stop(state: RunState, task: Task) -> list[Effect]:
    """A task was stopped because the run is leaving; whoever waits for a call gets to know."""
    if not is_call(task.path):
        return []
    _ended(state, task)
    return [AnswerCall(task.id, gone=True)]


def on_question(state: RunState, task: Task, event: TaskInterrupted) -> list[Effect]:
    """A call asks: its question is its caller's, which pauses when it gets to know."""
    caller = _ended(state, task)
    if caller is not None:
        state.asked[caller] = (*state.asked.get(caller, ()), *event.interrupts)
    if caller in state.interrupted:  # it has paused already, for another question
        asked = (*state.interrupted[caller], *event.interrupts)
        state.interrupted[caller] = asked
        state.generation += 1
        row = control_entry(state, state.tasks[caller], INTERRUPT, list(asked))
        state.unflushed.extend((row,) if state.has_saver else ())
        chunks.hold_interrupt(state, event.interrupts)
    return [AnswerCall(task.id, interrupts=event.interrupts)]


def with_those_of_calls(
    state: RunState, task: Task, questions: tuple[Interrupt, ...]
) -> tuple[Interrupt, ...]:
    """The questions of a task that pauses: also those of calls that it did not wait for."""
    known = {question.id for question in questions}
    more = (i for i in state.asked.get(task.id, ()) if i.id not in known)
    return (*questions, *more)


def _ended(state: RunState, task: Task) -> str | None:
    """Forget that anybody waits for the call; who did."""
    found: str | None = None
    for caller, waits in state.callers.items():
        if task.id in waits:
            waits.discard(task.id)
            found = caller
    return found


def hold_start(state: RunState, task: Task) -> None:
    """The `tasks` chunk of a call that starts."""
    if state.policy.modes:
        payload = {"id": task.id, "name": task.name, "input": task.input, "triggers": task.triggers}
        chunks.hold_debug(state, "tasks", "task", payload, state.step + 1)
