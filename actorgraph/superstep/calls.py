"""`@task` calls and steps: work that a running task starts in the same superstep.

A call's result is a row of the superstep's pending writes, under an id made of the calling task and
the call's number. So when the caller runs again, after a question, a crash or a failure, its n-th
call finds the result of its n-th call. Results go to the caller and into no channel.

A task ends after its calls: one that returns or pauses waits for them, one that fails has them
stopped first. Meanwhile it holds no place under `max_concurrency`. Errors go to the caller and are
not kept: a failed call runs again. A question becomes the caller's, whether it waited or not.

A step is a side effect inside of a node, stored under a key of the program's own. The node goes on
once the row is durable, except in exit mode, so a step whose result a node has seen is never
done again.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, cast

import msgspec

from actorgraph.errors import SchemaMismatchError
from actorgraph.superstep import chunks
from actorgraph.superstep.answers import consumed
from actorgraph.superstep.pending_writes import Attempt, own_ids
from actorgraph.superstep.run_state import OpenCalls, RunState
from actorgraph.superstep.saves import result_entry, rows_to_send, save
from actorgraph.superstep.stored_calls import (
    KnownTasks,
    lost_advice,
    lost_calls,
    stored_calls,
    stored_path,
)
from actorgraph.values.commands import Interrupt
from actorgraph.values.constants import CALL, PUSH, RETURN
from actorgraph.values.ids import TaskId, task_id
from actorgraph.values.run import (
    AnswerCall,
    CancelTasks,
    Effect,
    LedgerEntry,
    StartTask,
    StepKept,
    StoredPlace,
    Task,
    TaskCalled,
    TaskCancelled,
    TaskDrained,
    TaskEscaped,
    TaskFailed,
    TaskInterrupted,
    TaskPath,
    TaskSucceeded,
    path_key,
)

Ending = TaskSucceeded | TaskInterrupted | TaskFailed | TaskEscaped | TaskDrained | TaskCancelled
"""The events that end a task."""

Settled = tuple[list[Effect], Ending | None]
"""Effects, and the end of a node's task that `advance` must handle, if there is one."""


def call_place(
    state: RunState, base: bytes, caller: Task, place: tuple[str, int], name: str
) -> tuple[int, TaskId, StoredPlace | None]:
    """Return the number of a call, its id, and its place as it was stored, if that has other names.

    The number of the call is part of the id: in the next attempt of the caller the n-th call has
    the same id, and so finds the stored result of this one. Stored calls of dropped tasks have no
    number any more: the call behind them is found although they are gone.

    Args:
        base: the checkpoint of the superstep.
        place: the key of the caller's attempt, and the number of the call.
        name: of the function.
    """
    key, number = place
    renames = state.plan.renames.tasks
    names = [name]
    if state.stored_ids:
        names += [old for old, new in renames.items() if new == name]
        dropped = [old for old, new in renames.items() if new is None]
        behind = number
        while _stored_at(state, _places(state, base, caller, (key, behind), dropped), caller):
            behind += 1
        if behind > number:
            places = _places(state, base, caller, (key, behind), names)
            number = behind if _stored_at(state, places, caller) else number
    places = _places(state, base, caller, (key, number), names)
    stored = _stored_at(state, places, caller) or places[0]
    renamed = stored.name != name or caller.stored is not None
    return number, TaskId(stored.id), stored if renamed else None


def _places(
    state: RunState, base: bytes, caller: Task, place: tuple[str, int], names: Iterable[str]
) -> list[StoredPlace]:
    """The places that a caller's n-th call has under several names."""
    places: list[StoredPlace] = []
    for name in names:
        path = (PUSH, *stored_path(caller), place[1], name, CALL)
        where = (state.namespace, caller.id, place[0], path_key(path))
        places.append(StoredPlace(task_id(base, *where), name, path))
    return places


def _stored_at(state: RunState, places: list[StoredPlace], caller: Task) -> StoredPlace | None:
    """The first place of a call of which something is in the pending writes.

    That is a result, an answer, its first question, or something of a call in it.
    """
    own = path_key(stored_path(caller))
    for place in places if state.stored_ids else ():
        call = Task(TaskId(place.id), place.name, place.path, (), None, within=caller.namespace)
        if place.id in state.stored_ids or not state.stored_ids.isdisjoint(own_ids(call, 1)):
            return place
        number = cast("int", place.path[-3])
        if place.name in state.stored_calls.get((own, number), ()):
            return place
    return None


def check_call(
    state: RunState,
    caller: Task,
    call: tuple[int, str],
    identifier: str,
    defined: AbstractSet[str],
) -> None:
    """Refuse a call in the place of one whose result is stored under a name that is gone.

    Args:
        call: its number, and the name of the function.
        defined: the names of this process's `@task`s.
    Raises:
        SchemaMismatchError: the stored name is none of them, and no migration drops it; or a
            migration says that the called one is gone.
    """
    number, name = call
    renames = state.plan.renames
    if renames.tasks.get(name, name) != name:
        raise _called_although_gone(caller, name)
    if not state.stored_calls or identifier in state.returned:
        return
    tasks = KnownTasks(defined, state.plan)
    for stored in state.stored_calls.get((path_key(stored_path(caller)), number), ()):
        now = renames.task(stored)
        if now is not None and now != name and now not in tasks:
            raise SchemaMismatchError(
                f"call {number} of {caller.name!r} is to {name!r}, but thread "
                f"{state.thread_id!r} has rows of that call under the name "
                f"{stored!r}, which no @task has",
                do=f"@entrypoint(migrations=[Migration(tasks={{{stored!r}: {name!r}}})]), or the "
                "same in compile(), if it was renamed; None in place of the new name drops the "
                "result, if it was removed; or go on with the program that stored it",
            )


def _called_although_gone(caller: Task, name: str) -> SchemaMismatchError:
    return SchemaMismatchError(
        f"{caller.name!r} calls task {name!r}, which a migration renames or drops",
        do=f"give the task another name; or take {name!r} out of Migration(tasks=...)",
    )


def unclaimed(
    state: RunState, caller: Task, defined: AbstractSet[str]
) -> SchemaMismatchError | None:
    """Make the error of a caller that has ended without a stored call whose task is gone.

    The caller may have taken another way than before, and left out calls of tasks that exist. All
    rows stay: a run of a mended program finds them.

    Args:
        defined: the names of this process's `@task`s.
    """
    if not state.stored_calls:
        return None
    tasks = KnownTasks(defined, state.plan)
    for name in lost_calls(state.stored_calls, state.plan, tasks, caller):
        return SchemaMismatchError(
            f"{caller.name!r} has ended without a call of task {name!r}, which no @task of the "
            f"program is named, but thread {state.thread_id!r} has the result of such a call",
            do=lost_advice(name, defined)[1],
        )
    return None


def is_call(path: TaskPath) -> bool:
    """Whether a task is a `@task` call of another task."""
    return path[-1] == CALL


def shown_path(path: TaskPath) -> tuple[Any, ...]:
    """A path as LangGraph shows it.

    A call has `(push, path of its caller, number, True)`, the task of a Send `(push, number,
    False)`.
    """
    if not is_call(path):
        return (*path, False) if path[0] == PUSH and len(path) == 2 else path
    return (path[0], shown_path(path[1:-3]), path[-3], True)


def restore_calls(state: RunState, known: Mapping[str, Attempt]) -> None:
    """Take over a stored superstep's calls: their results, and the answers that they have used."""
    others = {i: attempt for i, attempt in known.items() if i not in state.tasks}
    state.returned = {
        identifier: value
        for identifier, attempt in others.items()
        for channel, value in attempt.writes or ()
        if channel == RETURN
    }
    state.stored_calls = stored_calls(others) if others else {}
    answers = {i: attempt.answers for i, attempt in others.items() if attempt.answers}
    waiting = _unanswered(state, known) if state.answering else {}
    state.calls = OpenCalls(answers=answers, waiting=waiting) if answers or waiting else None


def _unanswered(state: RunState, known: Mapping[str, Attempt]) -> dict[str, Interrupt]:
    """The questions below the due tasks that got no answer, by their ids."""
    return {
        question.id: question
        for task in state.due
        if task.id in known
        for question in known[task.id].interrupts
        if question.id not in task.routed
    }


def on_call(state: RunState, event: TaskCalled) -> list[Effect]:
    """Handle a call: answer with its stored result, or queue it as a task."""
    task = event.task
    if task.id in state.returned:
        return [AnswerCall(task.id, state.returned[task.id])]
    calls = state.calls = state.calls or OpenCalls()
    # The event may be late: its caller has ended meanwhile.
    late = event.caller not in state.running or event.caller in calls.ended
    if state.outcome is not None or late:
        return [AnswerCall(task.id, gone=True)]
    if task.id in calls.dropped:
        calls.again.add(task.id)  # it is being stopped: it runs again once it has
    elif task.id not in calls.callers:  # else an earlier attempt of the caller has made this call
        used = calls.answers.get(task.id, ())
        if questions := _still_asked(calls, task, len(used)):
            calls.asked.setdefault(event.caller, {}).update({i.id: i for i in questions})
            return [AnswerCall(task.id, interrupts=questions)]
        calls.open(event.caller, msgspec.structs.replace(task, answers=used) if used else task)
    return []


def _still_asked(calls: OpenCalls, task: Task, used: int) -> tuple[Interrupt, ...]:
    """The questions of a call that has asked before and is left alone; () if it is to run.

    The ids of questions that a subgraph of the call, or a part of it, has asked don't lead to the
    call: one with only such questions runs again.

    Args:
        used: the number of answers that it has used.
    """
    if not calls.waiting:
        return ()
    # It may have asked several at once, each of them open or answered.
    count = used + len(calls.waiting) + len(task.routed)
    own = list(own_ids(task, count))[used:]
    if any(identifier in task.routed for identifier in own):
        return ()
    return tuple(calls.waiting[i] for i in own if i in calls.waiting)


def start_calls(state: RunState, calls: OpenCalls) -> list[Effect]:
    """Start the calls that may run now."""
    effects: list[Effect] = []
    limit = state.policy.max_concurrency
    while calls.due and (limit is None or places_taken(state) < limit):
        task = calls.due.pop(next(iter(calls.due)))
        if state.policy.modes:
            _hold_start(state, task)
        state.running[task.id] = task
        effects.append(StartTask(task, task.input))
    return effects


def places_taken(state: RunState) -> int:
    """Count the running tasks; those that wait for calls hold no place."""
    return len(state.running) - (len(state.calls.of) if state.calls is not None else 0)


def drop(state: RunState, identifier: TaskId) -> Settled:
    """Stop a call whose caller does not wait for it any more."""
    calls = state.calls
    if calls is None or identifier not in calls.callers or state.outcome is not None:
        return [], None
    if identifier in calls.due:
        return settle(state, TaskCancelled(identifier))
    calls.again.discard(identifier)
    calls.dropped.add(identifier)
    return [CancelTasks((identifier,))], None


def abandon(state: RunState) -> list[Effect]:
    """Give up the calls that have not started: the run is leaving."""
    effects: list[Effect] = []
    for identifier in list(state.calls.due) if state.calls is not None else ():
        more, ending = settle(state, TaskCancelled(TaskId(identifier)))
        effects += more
        if ending is not None:
            state.running.pop(_ended_by(ending), None)
    return effects


def settle(state: RunState, event: Ending) -> Settled:
    """Handle the end of a task with regard to calls.

    A call's end goes to its caller. If the caller has ended too and waited for this call only, its
    own end is handled as well, and so on upwards.
    """
    effects: list[Effect] = []
    calls = state.calls
    if calls is None:
        return effects, event
    while True:
        identifier = _ended_by(event)
        if identifier in calls.of:
            return effects + _wait_for_calls(state, calls, event), None
        task = state.running.get(identifier) or calls.due.get(identifier)
        event = _with_those_of_calls(calls, identifier, event)
        if task is None or not is_call(task.path):
            return effects, event
        state.running.pop(identifier, None)
        calls.due.pop(identifier, None)
        if identifier in calls.again and isinstance(event, TaskCancelled):
            calls.restart(task)
            return effects, None
        effects += _pass_to_caller(state, calls, task, event)
        caller = calls.close(identifier)
        if caller in calls.of or caller not in calls.ended:
            return effects, None
        event = calls.ended.pop(caller)


def _ended_by(event: Ending) -> TaskId:
    return event.result.task if isinstance(event, TaskSucceeded) else event.task


def _wait_for_calls(state: RunState, calls: OpenCalls, event: Ending) -> list[Effect]:
    """Remember the end of a task that has open calls; unless it ended well, they are stopped."""
    identifier = _ended_by(event)
    calls.ended[identifier] = event
    if isinstance(event, (TaskSucceeded, TaskInterrupted, TaskDrained)):
        return []
    open_calls = cast("set[TaskId]", calls.of[identifier])
    effects: list[Effect] = []
    running = tuple(i for i in open_calls if i in state.running)
    if running and state.outcome is None:
        effects.append(CancelTasks(tuple(sorted(running))))
    return effects


def _with_those_of_calls(calls: OpenCalls, identifier: str, event: Ending) -> Ending:
    """Combine a task's end with those of its calls, so that none of their questions is lost."""
    asked = calls.asked.pop(identifier, {})
    drained = calls.drained.pop(identifier, None)
    if isinstance(event, TaskInterrupted):
        known = {question.id for question in event.interrupts}
        more = tuple(question for i, question in asked.items() if i not in known)
        return msgspec.structs.replace(event, interrupts=(*event.interrupts, *more))
    if not isinstance(event, TaskSucceeded):
        return event
    result = event.result
    if identifier in calls.broken:
        return TaskCancelled(result.task)
    if asked:
        questions = tuple(asked.values())
        return TaskInterrupted(
            result.task, questions, result.answers, result.took_unaddressed, result.times
        )
    return event if drained is None else TaskDrained(result.task, drained)


def _pass_to_caller(state: RunState, calls: OpenCalls, task: Task, event: Ending) -> list[Effect]:
    """Store the result of a call and hand its outcome to the caller."""
    caller = calls.callers[task.id]
    match event:
        case TaskSucceeded(result):
            value = state.returned[task.id] = result.writes[0][1]
            used = consumed(state, task, result.answers, result.took_unaddressed)
            effects = _save(state, result_entry(state, task, result), *used)
            if chunks.wants(state, "updates"):
                mark = {"__metadata__": {"cached": True}} if result.cached else {}
                chunks.hold(state, "updates", {task.name: value, **mark})
            chunks.hold_call_ended(state, task, result={RETURN: value})
            return [*effects, AnswerCall(task.id, value)]
        case TaskInterrupted(interrupts=questions):
            calls.asked.setdefault(caller, {}).update({i.id: i for i in questions})
            used = consumed(state, task, event.answers, event.took_unaddressed)
            return [*_save(state, *used), AnswerCall(task.id, interrupts=questions)]
        case TaskFailed(error=error):
            chunks.hold_call_ended(state, task, error=error)
            return [AnswerCall(task.id, error=error)]
        case TaskEscaped(error=error):
            return [AnswerCall(task.id, error=error)]
        case TaskDrained(error=drained):
            calls.drained[caller] = drained
            return [AnswerCall(task.id, drained=drained)]
        case TaskCancelled():
            if state.outcome is not None:
                calls.broken.add(caller)
            return [AnswerCall(task.id, gone=True)]


def _save(state: RunState, *rows: LedgerEntry) -> list[Effect]:
    unsent = rows_to_send(state, *rows)
    return [save(state, ledger=unsent)] if unsent else []


def _hold_start(state: RunState, task: Task) -> None:
    """Queue the `tasks` chunk of a call that starts."""
    payload = {"id": task.id, "name": task.name, "input": task.input, "triggers": task.triggers}
    chunks.hold_debug(state, "tasks", "task", payload, state.step + 1)


def step_id(task: Task, key: str) -> TaskId:
    """Make the id of a step; it is the same whenever its task runs again."""
    return task_id(b"", "step", task.id, key)


def step_path(task: Task, key: str) -> TaskPath:
    """Make the path of a step's row; it sorts behind its task's."""
    return (PUSH, *task.path, f"step {key}", CALL)


def on_step(state: RunState, event: StepKept) -> list[Effect]:
    """Store the result of a step; the node goes on when it is durable."""
    identifier = step_id(event.task, event.key)
    path = step_path(event.task, event.key)
    row = LedgerEntry(state.checkpoint, identifier, path, 0, 0, ((RETURN, event.value),))
    state.returned[identifier] = event.value
    if state.outcome is not None:  # the effect has taken place, so the final save must hold it
        state.unflushed.extend((row,) if state.has_saver else ())
        return [AnswerCall(identifier, event.value)]
    rows = rows_to_send(state, row)
    if not rows:
        return [AnswerCall(identifier, event.value)]
    effect = save(state, ledger=rows)
    if state.steps is None:
        state.steps = deque()
    state.steps.append((effect.number, identifier))
    return [effect]


def on_steps_saved(state: RunState) -> list[Effect]:
    """Answer the steps whose saves are durable now, so that their nodes go on."""
    effects: list[Effect] = []
    while state.steps and state.steps[0][0] <= state.durable:
        _, identifier = state.steps.popleft()
        effects.append(AnswerCall(identifier, state.returned.get(identifier)))
    return effects
