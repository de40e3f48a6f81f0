"""Functions for code inside a node, and the values of a node's injected parameters.

get_runtime, get_store   of the running task
interrupt                pause the run with a question
astep, step              perform a side effect once per task, even if its node runs again
get_idempotency_key      for requests to services that drop duplicates

A node may run again: after a crash, a failure, an interrupt. The result of a step is stored, and
the next attempt gets it instead of performing the step. A crash is still possible between an
effect and the storing of its result; a service that gets the task's idempotency key drops the
second request then.
"""

import inspect
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache, partial
from typing import Any, Literal, TypeVar, cast, overload

import msgspec

from actorgraph.channels import EMPTY
from actorgraph.errors import InvalidConfigError, InvalidResumeError, RunningLoopError
from actorgraph.errors.excerpts import shown as shown_text
from actorgraph.loops import in_event_loop
from actorgraph.plan.json_schema import json_schema
from actorgraph.plan.mentions import MARK
from actorgraph.ports import Store
from actorgraph.runtime.mailbox import Gate
from actorgraph.runtime.task.cache_reads import (
    fields_of,
    name_of_read,
    reads_of,
    runtime_with_notes,
)
from actorgraph.runtime.task.futures import TaskFuture
from actorgraph.runtime.task.runtime import Runtime, beat_nothing
from actorgraph.runtime.task.scope import TaskCalls, TaskScope, current
from actorgraph.runtime.task.timed_questions import (
    MISSING,
    Escalation,
    checked_for_expiry,
    timing_of,
)
from actorgraph.superstep.calls import step_id
from actorgraph.values.alarms import Timing
from actorgraph.values.commands import Interrupt, mark_invalid_resume
from actorgraph.values.ids import as_text, interrupt_id
from actorgraph.values.policies import Durability
from actorgraph.values.run import ExecutionInfo, ServerInfo
from actorgraph.values.schema_types import ContextT
from actorgraph.values.served_users import served_user


def injected(names: tuple[str, ...], scope: TaskScope) -> dict[str, Any]:
    """Values for a node's injected parameters, by name."""
    return {name: _PROVIDERS[name](scope) for name in names}


def get_runtime(context_schema: type[ContextT] | None = None) -> Runtime[ContextT]:
    """Get the `Runtime` of the running task: its context, store, stream writer and more.

    Args:
        context_schema: the type of `context`, for type checkers only.
    Raises:
        OutsideRunError: not called in a node.
    """
    del context_schema
    return runtime_of(current("get_runtime()"))


def get_store() -> Store | None:
    """Get the store of `compile(store=...)`, of this graph or its parent; else None.

    Raises:
        OutsideRunError: not called in a node.
    """
    return _store_of(current("get_store()"))


def _store_of(scope: TaskScope) -> Store | None:
    return cast("Store | None", _read(scope, "store", scope.run_context.resources.store))


def _previous_of(scope: TaskScope) -> Any:
    return _read(scope, "previous", getattr(scope, "previous", None))


def _read(scope: TaskScope, name: str, value: Any) -> Any:
    """Return a value that the task reads; a cached node's result depends on it."""
    if (reads := reads_of(scope)) is not None:
        reads.note((name_of_read(name, value),))
    return value


def runtime_of(scope: TaskScope) -> Runtime[Any]:
    """The `Runtime` of a task; made at the first request of each attempt."""
    runtime = getattr(scope, "runtime", None)
    if runtime is None or fields_of(runtime)["execution_info"].node_attempt != scope.attempt:
        runtime = scope.runtime = _make_runtime(scope)
    return runtime


def _make_runtime(scope: TaskScope) -> Runtime[Any]:
    resources = scope.run_context.resources
    fields: dict[str, Any] = {
        "context": resources.context,
        "store": resources.store,
        "stream_writer": scope.write,
        "heartbeat": getattr(scope, "heartbeat", beat_nothing),
        "previous": getattr(scope, "previous", None),
        "execution_info": _execution_info(scope),
        "server_info": _server_info(scope.base_config.get("configurable") or {}),
        "control": scope.run_context.control,
        "stores": resources.stores,
    }
    return runtime_with_notes(Runtime, fields, reads_of(scope))


def _server_info(place: Mapping[str, Any]) -> ServerInfo | None:
    """Describe the server's request, which LangGraph's server names in `configurable`."""
    assistant, graph = place.get("assistant_id"), place.get("graph_id")
    user = served_user(place)
    if assistant is None and graph is None and user is None:
        return None
    return ServerInfo(str(assistant or ""), str(graph or ""), user)


def _execution_info(scope: TaskScope) -> ExecutionInfo:
    run_context, task = scope.run_context, scope.task
    began = getattr(scope, "first_attempt_time", None)
    if began is None:
        began = scope.first_attempt_time = time.time()
    thread_id = run_context.thread_id or None
    run_id = scope.base_config.get("run_id")
    return ExecutionInfo(
        checkpoint_id=as_text(run_context.base()),
        checkpoint_ns=task.namespace,
        task_id=task.id,
        thread_id=thread_id,
        run_id=as_text(run_context.run) if run_id is None else str(run_id),
        node_attempt=scope.attempt,
        node_first_attempt_time=began,
        idempotency_key=f"{thread_id}/{task.id}" if thread_id else task.id,
    )


_PROVIDERS: dict[str, Any] = {
    "config": lambda scope: scope.config,
    "error": lambda scope: getattr(scope, "error", None),
    "previous": _previous_of,
    "runtime": runtime_of,
    "store": _store_of,
    "writer": lambda scope: scope.write,
}


T = TypeVar("T")


@overload
def interrupt(
    value: Any,
    *,
    response_schema: type[T],
    due: timedelta | datetime | None = None,
    remind: Sequence[timedelta | datetime] = (),
    escalate: Escalation | None = None,
) -> T: ...
@overload
def interrupt(
    value: Any,
    *,
    response_schema: type[T],
    due: timedelta | datetime,
    otherwise: T,
    remind: Sequence[timedelta | datetime] = (),
    escalate: Escalation | None = None,
) -> T: ...
@overload
def interrupt(
    value: Any,
    *,
    response_schema: dict[str, Any] | None = None,
    due: timedelta | datetime | None = None,
    otherwise: Any = MISSING,
    remind: Sequence[timedelta | datetime] = (),
    escalate: Escalation | None = None,
) -> Any: ...
def interrupt(
    value: Any,
    *,
    response_schema: type | dict[str, Any] | None = None,
    due: timedelta | datetime | None = None,
    otherwise: Any = MISSING,
    remind: Sequence[timedelta | datetime] = (),
    escalate: Escalation | None = None,
) -> Any:
    """Pause the run with a question; return its answer once the thread is resumed.

    The first call raises, and the run ends with the question in `__interrupt__`. When the
    thread is resumed with `Command(resume=answer)` the node runs again from its top, and the
    call returns the answer. The n-th call of a node gets its n-th answer.

    Args:
        value: the question; any value that can be stored.
        response_schema: the schema of the answer. A dict is a JSON schema that is shown with the
            question and checks nothing. A pydantic model, TypedDict, dataclass or msgspec Struct
            is shown as a JSON schema, checks the answer and converts it to that type; so is any
            other type that pydantic knows, such as a union, if the program has imported it.
        due: when the question answers itself: a timedelta from now, or a datetime with a time
            zone. An ActorSystem over the saver does it, by the clock of the saver's store; without
            one the next `invoke(None, config)` does. An answer that comes first wins.
        otherwise: the answer that it gives itself; without it the call raises
            `QuestionExpiredError` then.
        remind: when it reminds, while nobody has answered: times as for `due`, before it.
        escalate: called when it reminds, by one system, with the question (an `Interrupt`) and how
            often it has reminded, 1 the first time. A plain function runs in a worker thread. It
            is found again by its name in the module of the node, or in the function around it. A
            crash between its call and the record of it calls it again.
    Returns: the answer.
    Raises:
        GraphInterrupt: the answer isn't known yet. It is a BaseException, so that
            `except Exception` doesn't catch it.
        InvalidResumeError, pydantic.ValidationError: the answer doesn't fit the schema. It is
            dropped, and the question stays open; see `is_invalid_resume`.
        QuestionExpiredError: the question was due, and has no `otherwise`.
        InvalidConfigError: an argument about its times is invalid, or the saver stores no alarms.
        OutsideRunError: not called in a node.
    """
    scope = current("interrupt()")
    times: Callable[[], Timing] | None = None
    if due is not None or remind or otherwise is not MISSING or escalate is not None:
        times = partial(timing_of, scope, due, otherwise, remind, escalate)
    if otherwise is not MISSING and not isinstance(response_schema, dict | None):
        _check_own_answer(otherwise, response_schema)
    return _ask(scope, value, response_schema, times)


def _ask(
    scope: TaskScope,
    value: Any,
    response_schema: type | dict[str, Any] | None,
    times: Callable[[], Timing] | None,
) -> Any:
    if response_schema is None or isinstance(response_schema, dict):
        answer = scope.ask(value, response_schema, times)
        return answer if times is None else checked_for_expiry(answer)
    adapter = _adapter_of(response_schema)
    if adapter is None:
        shown = json_schema(response_schema, title=response_schema.__name__)
    else:
        shown = adapter.json_schema()
    number = scope.asked
    answer = checked_for_expiry(scope.ask(value, shown, times))
    return _convert_answer(answer, response_schema, lambda: _question(scope, number, value, shown))


def _check_own_answer(answer: Any, kind: Any) -> None:
    try:
        converted_answer(answer, kind)
    except ValueError as error:
        raise InvalidConfigError(
            f"otherwise={shown_text(answer)} doesn't fit response_schema={kind.__name__}: {error}",
            do="give the question an answer of its own that fits",
        ) from error


@lru_cache
def _adapter_of(kind: Any) -> Any:
    """Return pydantic's adapter of a type that isn't a class, such as a union; None for a class.

    Only if the program has imported pydantic: unions of several classes need it.
    """
    pydantic = sys.modules.get("pydantic")
    return None if pydantic is None or isinstance(kind, type) else pydantic.TypeAdapter(kind)


def _question(scope: TaskScope, number: int, value: Any, schema: dict[str, Any]) -> Interrupt:
    return Interrupt(value, interrupt_id(scope.task.namespace + scope.key, number), schema)


def converted_answer(answer: Any, kind: Any) -> Any:
    """Convert an answer to the type that its question expects.

    Raises:
        ValueError: it doesn't fit: of msgspec or pydantic.
    """
    adapter = _adapter_of(kind)
    if adapter is not None:
        return adapter.validate_python(answer)
    if hasattr(kind, "model_validate"):
        return kind.model_validate(answer)
    return msgspec.convert(answer, kind)


def _convert_answer(answer: Any, kind: Any, question: Callable[[], Interrupt]) -> Any:
    """Convert an answer to its type; an object of that type stays as it is."""
    try:
        return converted_answer(answer, kind)
    except msgspec.ValidationError as error:
        refused = InvalidResumeError(
            f"the answer to {question().id} is not a valid {kind.__name__}: {error}",
            do="resume again with an answer that fits interrupt.response_schema",
        )
        mark_invalid_resume(refused, question())
        raise refused from error
    except ValueError as error:  # pydantic's ValidationError
        mark_invalid_resume(error, question())
        raise


ResultT = TypeVar("ResultT")


Doubt = Callable[[], Awaitable[ResultT | None]] | Callable[[], ResultT | None] | Literal["ask"]
"""What to do about a step that has begun and whose end is unknown: see `astep`."""
BEGUN, ASKED, AGAIN = " (begun)", " (asked)", " (again)"
"""Ends of the keys of rows that say that a step with `doubt=` has begun, and that it has asked; of
those that begin once more after a person has said that it was not done."""


@overload
async def astep(
    key: str, function: Callable[[], Awaitable[ResultT]], *, doubt: Doubt[ResultT] | None = None
) -> ResultT: ...
@overload
async def astep(
    key: str, function: Callable[[], ResultT], *, doubt: Doubt[ResultT] | None = None
) -> ResultT: ...
async def astep(
    key: str,
    function: Callable[[], Awaitable[ResultT] | ResultT],
    *,
    doubt: Doubt[ResultT] | None = None,
) -> ResultT:
    """Perform a side effect once for the running task, even if its node runs again.

    The result is stored before this returns (with durability "exit" when the run ends), and a
    later attempt of the task gets it without a call: `receipt = await astep("charge", charge)`. An
    error of `function` is raised and not stored.

    Args:
        key: distinguishes the task's steps; the same key gives the same result.
        function: async or sync; a sync one runs in the event loop, so it must be quick.
        doubt: what to do if an earlier attempt has begun `function`, and its end is unknown: the
            process died, or it raised an error. A function, async or sync, finds out: it returns
            the result, or None if the effect has not taken place, and `function` is called again.
            "ask" asks a person: the run pauses with a question, whose answer is
            `{"done": true, "result": ...}` or `{"done": false}`. That it begins is stored before it
            begins, which costs a commit. Default: `function` is called again.
    Returns: the result; any value that can be stored.
    Raises:
        OutsideRunError: not called in a node.
        InvalidConfigError: an argument is invalid, or `doubt` is given with durability "exit" or
            without a saver.
    """
    return await kept_step(key, function, None, doubt)


async def kept_step(
    key: str,
    function: Callable[[], Awaitable[ResultT] | ResultT],
    keeps: Callable[[ResultT], bool] | None,
    doubt: Doubt[ResultT] | None = None,
) -> ResultT:
    """As `astep`, for results that need not be stored.

    Args:
        keeps: whether to store a result; None stores each.
    """
    scope, calls, identifier = _task_and_step("astep()", key)
    # Concurrent code of the same node may be performing this step: its result is ours too.
    while (gate := calls.running_steps.get(identifier)) is not None:
        await gate.wait()
    known = calls.step_result(identifier)
    if known is not EMPTY:
        _skip_question(scope, calls, key)
        return cast("ResultT", known)
    gate = calls.running_steps[identifier] = Gate()
    try:
        result: Any = None
        if doubt is not None:
            part = key
            while (begun := _begun(scope, calls, part, doubt)) is None:
                found = _ask_about(key) if doubt == "ask" else doubt()
                result = await found if inspect.isawaitable(found) else found
                if doubt == "ask":
                    await _note_question(scope, calls, part)
                if doubt != "ask" or result is not None:
                    break
                part += AGAIN
            if begun is not None:
                await begun
        if result is None:
            value = function()
            result = await value if inspect.isawaitable(value) else value
        if keeps is None or keeps(result):
            await calls.store_step(scope, identifier, key, result)
    finally:
        del calls.running_steps[identifier]
        gate.open()
    return cast("ResultT", result)


def step(
    key: str, function: Callable[[], ResultT], *, doubt: Doubt[ResultT] | None = None
) -> ResultT:
    """The blocking twin of `astep`, for sync nodes; `doubt` is "ask" or a plain function.

    Raises:
        RunningLoopError: called in async code, whose event loop it would block.
        OutsideRunError: not called in a node.
        InvalidConfigError: as `astep`.
    """
    if in_event_loop():
        raise RunningLoopError(
            f"step({key!r}) was called in async code", do=f"`await astep({key!r}, ...)`"
        )
    scope, calls, identifier = _task_and_step("step()", key)
    known = calls.step_result(identifier)
    if known is not EMPTY:
        _skip_question(scope, calls, key)
        return known
    result: Any = None
    if doubt is not None:
        part = key
        while (begun := _begun(scope, calls, part, doubt)) is None:
            result = _ask_about(key) if doubt == "ask" else doubt()
            if doubt == "ask":
                _note_question(scope, calls, part).result()
            if doubt != "ask" or result is not None:
                break
            part += AGAIN
        if begun is not None:
            begun.result()
    if result is None:
        result = function()
    calls.store_step(scope, identifier, key, result).result()
    return result


vars(step)[MARK] = True


def _begun(scope: TaskScope, calls: TaskCalls, key: str, doubt: Any) -> TaskFuture[Any] | None:
    """Store that a step begins; None if an earlier attempt has begun it.

    Raises:
        InvalidConfigError: `doubt` is invalid, or the row could not be stored before the step.
    """
    if doubt != "ask" and not callable(doubt):
        raise InvalidConfigError(
            f'doubt= takes a function or "ask", got {shown_text(doubt)}',
            do="pass a function that looks the effect up, and returns its result or None",
        )
    context = scope.run_context
    if context.host is None or context.policy.durability is Durability.EXIT:
        raise InvalidConfigError(
            f"step {key!r} has doubt=, so that it begins has to be stored before it begins, which "
            'needs a saver, and durability "sync" or "async"',
            do='compile(checkpointer=...), and no durability="exit"',
        )
    identifier = step_id(scope.task, key + BEGUN)
    if calls.step_result(identifier) is not EMPTY:
        return None
    began = True
    return calls.store_step(scope, identifier, key + BEGUN, began)


def _note_question(scope: TaskScope, calls: TaskCalls, key: str) -> TaskFuture[Any]:
    """Store that a step has asked: the n-th question of a node has its n-th answer."""
    identifier, asked = step_id(scope.task, key + ASKED), True
    return calls.store_step(scope, identifier, key + ASKED, asked)


def _skip_question(scope: TaskScope, calls: TaskCalls, key: str) -> None:
    """Count the question that a step has asked in an earlier attempt, which has its answer."""
    while calls.step_result(step_id(scope.task, key + ASKED)) is not EMPTY:
        scope.asked += 1
        key += AGAIN


DOUBT_SCHEMA = {
    "type": "object",
    "properties": {"done": {"type": "boolean"}, "result": {}},
    "required": ["done"],
}
"""The answer about a step in doubt: whether it is done, and its result."""


def _ask_about(key: str) -> Any:
    """Ask a person whether a step has taken place. Returns its result; None if it has not."""
    said = f"step {key!r} has begun, and it is not known whether it was done; was it?"
    scope, value = current("astep()"), {"step": key, "question": said}
    number = scope.asked
    answer = scope.ask(value, DOUBT_SCHEMA)
    if not isinstance(answer, dict) or not isinstance(cast("Any", answer).get("done"), bool):
        refused = InvalidResumeError(
            f"the answer about step {key!r} must say whether it is done, got {shown_text(answer)}",
            do='answer {"done": true, "result": ...} or {"done": false}',
        )
        mark_invalid_resume(refused, _question(scope, number, value, DOUBT_SCHEMA))
        raise refused
    known = cast("dict[str, Any]", answer)
    if not known["done"]:
        return None
    result = known.get("result")
    return True if result is None else result


def get_idempotency_key(part: str = "") -> str:
    """Get a key for a request to a service that drops duplicates with the same key.

    It is the same for every attempt of the running task, also after a crash, and different for
    every other task.

    Args:
        part: distinguishes several requests of one task.
    Raises:
        OutsideRunError: not called in a node.
    """
    info = runtime_of(current("get_idempotency_key()")).execution_info
    assert info is not None
    return f"{info.idempotency_key}/{part}" if part else info.idempotency_key


def _task_and_step(what: str, key: str) -> tuple[TaskScope, TaskCalls, str]:
    """The running task, the calls and steps of its run, and the id of the step."""
    scope = current(what)
    if not isinstance(key, str) or not key:
        raise InvalidConfigError(
            f"the key of {what} must be a non-empty str, got {key!r}",
            do='name the step, as in astep("charge", charge)',
        )
    if scope.progress is not None:
        scope.progress()
    if key.endswith((BEGUN, ASKED, AGAIN)):
        raise InvalidConfigError(
            f"the key {key!r} of {what} ends like that of a row of this library's own",
            do="choose another key",
        )
    calls = scope.run_context.calls
    assert calls is not None
    return scope, calls, step_id(scope.task, key)
