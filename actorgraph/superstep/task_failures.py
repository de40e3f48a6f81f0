"""Failures: retries, error handlers, and the input of a run whose save was refused.

A failed attempt is retried by the node's policies (`next_delay`), or after the wait that a server
asks for with its error (`retry_after`); `runtime.run.attempts` waits and calls again. Only the last
failure is an event of the run. It goes to the node's error handler, if it has one, which becomes a
task in the same superstep. The failed task counts as finished without writes; the handler's writes
take their place. The failure is stored before the handler starts: after a crash the handler runs
again, not the node.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC
from email.utils import parsedate_to_datetime
from math import inf
from typing import Any

from actorgraph.errors import (
    AlreadyResumedError,
    CheckpointError,
    ConflictError,
    LeaseLostError,
    NodeCancelledError,
    NodeError,
    SaverBrokenError,
    SchemaMismatchError,
    SerializationError,
    StorageError,
    StoredNodeError,
)
from actorgraph.errors.texts import error_repr
from actorgraph.plan.plan import Plan
from actorgraph.superstep import chunks
from actorgraph.superstep.pending_writes import Attempt
from actorgraph.superstep.run_state import RunState
from actorgraph.superstep.saves import control_entry, rows_to_send, save
from actorgraph.superstep.tasks import as_stored
from actorgraph.values.commands import is_invalid_resume
from actorgraph.values.constants import ERROR, ERROR_SOURCE_NODE, HANDLER_MARK, ONE_AT_A_TIME, PUSH
from actorgraph.values.http_errors import headers_of
from actorgraph.values.ids import task_id
from actorgraph.values.policies import Durability, RetryOn, RetryPolicy
from actorgraph.values.run import Effect, LedgerEntry, Task, TaskFailed, TaskResult, TaskTimes


def next_delay(
    policies: Sequence[RetryPolicy],
    attempt: int,
    error: BaseException,
    random: float,
    *,
    now: float = 0.0,
    left: float = inf,
) -> float | None:
    """Compute the seconds to wait before the next attempt; None after the last.

    The first policy that matches the error decides. The wait that a server asks for is the least.

    Args:
        policies: in order; empty means no retries.
        attempt: the number of the failed attempt, from 1.
        random: the jitter, from 0 to 1.
        now: seconds since 1970.
        left: seconds until the run's deadline; a server that asks for more ends the attempts.
    """
    if not isinstance(error, Exception) or isinstance(error, NodeCancelledError):
        return None  # e.g. KeyboardInterrupt, or a node that cancels itself
    if is_invalid_resume(error):
        return None  # it would get the same answer
    policy = next((p for p in policies if matches(p.retry_on, error)), None)
    if policy is None or attempt >= policy.max_attempts:
        return None
    try:
        wait = policy.initial_interval * policy.backoff_factor ** (attempt - 1)
    except OverflowError:
        wait = policy.max_interval
    wait = min(wait, policy.max_interval)
    asked = retry_after(error, now)
    if asked is not None:
        if asked > left:
            return None  # an earlier attempt would be refused too
        wait = max(wait, asked)
    return wait + (random if policy.jitter else 0.0)


def matches(retry_on: RetryOn, error: Exception) -> bool:
    """Whether `retry_on` matches an error; a group matches if each error in it does."""
    if callable(retry_on) and not isinstance(retry_on, type):
        return bool(retry_on(error))
    kinds: Any = retry_on if isinstance(retry_on, type) else tuple(retry_on)
    if isinstance(error, kinds):
        return True
    inner = error.exceptions if isinstance(error, ExceptionGroup) else ()
    return bool(inner) and all(matches(retry_on, e) for e in inner)


def handles(state: RunState, task: Task, error: BaseException) -> bool:
    """Whether a failure goes to a handler: not if it stops the program or is a handler's own.

    Nor if the program doesn't fit the thread: the superstep would end without its stored calls.
    """
    node = state.plan.nodes.get(task.name)
    handled = isinstance(error, Exception) and not isinstance(error, SchemaMismatchError)
    return node is not None and bool(node.handler) and handled


def start_handler(state: RunState, task: Task, event: TaskFailed) -> list[Effect]:
    """Make the handler's task due; it starts once the failure is stored.

    A run that is leaving stores the failure only: the next run begins with the handler.
    """
    error = event.error
    rows = failure_rows(state, task, error, event.times)
    chunks.hold_task(state, task, error=error)
    if state.outcome is not None:
        state.unflushed.extend(rows if state.has_saver else ())
        return []
    sent = rows_to_send(state, *rows)
    effects: list[Effect] = [save(state, ledger=sent)] if sent else []
    state.barrier = state.sent if sent else state.barrier
    state.results[task.id] = TaskResult(task.id, ())
    handler = handler_task(state, task)
    state.tasks[handler.id] = handler
    state.handled[handler.id] = NodeError(task.name, error)
    state.due.append(handler)
    return effects


def error_rows(
    state: RunState, task: Task | None, error: BaseException, times: TaskTimes | None = None
) -> tuple[LedgerEntry, ...]:
    """Make the row of an error that ends the run; none for Ctrl-C.

    Ctrl-C that comes while a function runs cuts the superstep off: it is unfinished, not failed.

    Args:
        task: the one that failed; None if folding the results did.
    """
    if isinstance(error, KeyboardInterrupt):
        return ()
    return (control_entry(state, task, ERROR, error_repr(error), times),)


def failure_rows(
    state: RunState, task: Task, error: BaseException, times: TaskTimes | None = None
) -> tuple[LedgerEntry, ...]:
    """Make the rows for a failure: its error, and that the node's handler handles it."""
    failed = control_entry(state, task, ERROR, error_repr(error), times)
    return failed, control_entry(state, task, ERROR_SOURCE_NODE, task.name)


def handler_task(state: RunState, failed: Task) -> Task:
    """Make the task that handles a failed one; its id is the same whenever it is made again."""
    name = state.plan.nodes[failed.name].handler
    identifier = task_id(state.checkpoint, state.namespace, name, PUSH, HANDLER_MARK, failed.id)
    task = Task(
        id=identifier,
        name=name,
        path=(*failed.path[:3], HANDLER_MARK, False),
        triggers=(PUSH,),
        input=failed.input,
        timeout=state.plan.handlers[name].timeout,
        within=state.namespace,
    )
    return as_stored(state, task) if state.places else task


def is_handled(plan: Plan, task: Task, known: Mapping[str, Attempt]) -> bool:
    """Whether a task's stored failure is left to its handler."""
    attempt = known.get(task.id)
    if attempt is None or attempt.writes is not None or not attempt.handled:
        return False
    node = plan.nodes.get(task.name)
    return node is not None and bool(node.handler)


def with_handlers(
    state: RunState, tasks: Sequence[Task], known: Mapping[str, Attempt]
) -> list[Task]:
    """Append to due tasks the handlers of those whose stored failures are handled."""
    if not state.plan.handlers:
        return list(tasks)
    failed = [task for task in tasks if is_handled(state.plan, task, known)]
    return [*tasks, *(handler_task(state, task) for task in failed)]


def take_back_failure(state: RunState, failed: Task, attempt: Attempt) -> None:
    """Take over a failure that an earlier run stored; its handler gets the error's text."""
    state.results[failed.id] = TaskResult(failed.id, ())
    error = StoredNodeError(
        f"node {failed.name!r} failed in an earlier run: {attempt.error}",
        do="read the text: the exception itself was not stored",
    )
    state.handled[handler_task(state, failed).id] = NodeError(failed.name, error)


GO_ON = "go on with the input None; this call's input is stored already"
LOOK = (
    "read get_state(config) before this input is passed again: the run that took the thread over "
    "may have gone on with it"
)
_NOTHING_STORED = (ConflictError, StorageError, SerializationError)


def with_input_advice(state: RunState, error: BaseException) -> BaseException:
    """Add to the error of a refused save whether the run's input is stored, and what to do.

    Returns a copy: the saver's actor may give one error object to many runs. A subgraph's saves
    come after the root run's claim, which has the input; an error of a subgraph with a saver of
    its own is returned as it is.
    """
    if not isinstance(error, CheckpointError):
        return error
    if state.nested is not None and state.nested.claims:
        return error
    advised = _copied(error)
    if state.nested is None and not state.durable:
        nothing = isinstance(error, _NOTHING_STORED) and not isinstance(error, SaverBrokenError)
        advised.input_stored = False if nothing else None
    elif isinstance(error, LeaseLostError):
        advised.input_stored = True
    elif not isinstance(error, ConflictError) or error.do == ONE_AT_A_TIME:
        advised.input_stored, advised.do = True, f"{error.do}; then {GO_ON}"
    elif state.policy.durability is Durability.EXIT:
        # The input is stored with the claim only: the run that took the thread over has used it
        # if its own input was None.
        advised.input_stored, advised.do = None, LOOK
    else:
        advised.input_stored, advised.do = True, GO_ON
    return advised


def mark_input_stored(state: RunState, error: BaseException) -> None:
    """Make a task's error say that this run's input is stored; a call inside may have set it."""
    if isinstance(error, CheckpointError) and error.input_stored is not None:
        error.input_stored = True if state.has_saver else None


def may_begin_again(error: BaseException | None) -> bool:
    """Whether a run that ended with this error has stored nothing and may claim the thread again.

    True after a conflict: another run has the thread, or had it between this run's read and its
    claim. False if another run gave the answer, or took over the lease.
    """
    if not isinstance(error, ConflictError) or error.input_stored is not False:
        return False
    return not isinstance(error, AlreadyResumedError | LeaseLostError)


def _copied(error: CheckpointError) -> CheckpointError:
    """A copy with notes of its own, made without the constructor: a saver's class may have any."""
    kind = type(error)
    copy = kind.__new__(kind, *error.args)
    vars(copy).update(vars(error))
    if hasattr(error, "__notes__"):
        copy.__notes__ = [*error.__notes__]
    copy.__cause__, copy.__context__ = error.__cause__, error.__context__
    copy.__suppress_context__ = error.__suppress_context__
    return copy


RETRY_AFTER_MAX_S = 3600.0
"""A server that asks for a longer wait is not listened to: no node sleeps for hours."""

_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?")


def retry_after(error: BaseException, now: float) -> float | None:
    """Compute the seconds that the server of an error asks to wait.

    Args:
        error: of an HTTP client; of a group the longest wait counts.
        now: seconds since 1970, for a date if the response has none of its own.
    Returns: None if it asks for nothing, for a wait in the past, or for more than an hour.
    """
    if isinstance(error, BaseExceptionGroup):
        inner = (retry_after(each, now) for each in error.exceptions)
        return max((wait for wait in inner if wait is not None), default=None)
    headers = headers_of(error)
    # Clients that know the finer one prefer it.
    wait = _number(headers.get("retry-after-ms"), 0.001)
    return _wait(headers, now) if wait is None else wait


def _wait(headers: dict[str, str], now: float) -> float | None:
    header = headers.get("retry-after")
    wait = _number(header, 1.0)
    if wait is not None or header is None:
        return wait
    until = _date(header)
    if until is None:
        return None
    # The server's own time, if it says it: its clock may be another than this machine's.
    asked = _date(headers.get("date"))
    return _sane(until - (now if asked is None else asked))


def _number(text: str | None, unit: float) -> float | None:
    if text is None or not _NUMBER.fullmatch(text.strip()):
        return None
    return _sane(float(text) * unit)


def _date(text: str | None) -> float | None:
    """Read an HTTP date, as seconds since 1970."""
    try:
        date = parsedate_to_datetime(text or "")
        return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    except Exception:  # noqa: BLE001 - a server's nonsense must not hide the error it came with
        return None


def _sane(wait: float) -> float | None:
    return wait if 0 <= wait <= RETRY_AFTER_MAX_S else None
