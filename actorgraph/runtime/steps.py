"""Side effects inside a node that must not happen twice: `astep`, `step`, idempotency keys.

A node may run again: after a crash, a failure, an interrupt. The result of a step is stored, and
the next attempt gets it instead of performing the step.
"""

import inspect
from collections.abc import Awaitable, Callable
from typing import TypeVar, cast, overload

from actorgraph.channels import EMPTY
from actorgraph.errors import InvalidConfigError, RunningLoopError
from actorgraph.loops import in_event_loop
from actorgraph.runtime.called import TaskCalls
from actorgraph.runtime.context import TaskScope, current
from actorgraph.runtime.injection import runtime_of
from actorgraph.runtime.mailbox import Gate
from actorgraph.superstep.memos import step_id

ResultT = TypeVar("ResultT")


@overload
async def astep(key: str, function: Callable[[], Awaitable[ResultT]]) -> ResultT: ...
@overload
async def astep(key: str, function: Callable[[], ResultT]) -> ResultT: ...
async def astep(key: str, function: Callable[[], Awaitable[ResultT] | ResultT]) -> ResultT:
    """Perform a side effect once for the running task, even if its node runs again.

    The result is stored before this returns (with durability "exit" when the run ends), and a
    later attempt of the task gets it without a call: `receipt = await astep("charge", charge)`. An
    error of `function` is raised and not stored.

    Args:
        key: distinguishes the task's steps; the same key gives the same result.
        function: async or sync; a sync one runs in the event loop, so it must be quick.
    Returns: the result; any value that can be stored.
    Raises:
        OutsideRunError: not called in a node.
        InvalidConfigError: the key is not a str, or is empty.
    """
    scope, calls, identifier = _task_and_step("astep()", key)
    # Concurrent code of the same node may be performing this step: its result is ours too.
    while (gate := calls.running_steps.get(identifier)) is not None:
        await gate.wait()
    known = calls.step_result(identifier)
    if known is not EMPTY:
        return known
    gate = calls.running_steps[identifier] = Gate()
    try:
        value = function()
        made = await value if inspect.isawaitable(value) else value
        await calls.store_step(scope, identifier, key, made)
    finally:
        del calls.running_steps[identifier]
        gate.open()
    return cast("ResultT", made)


def step(key: str, function: Callable[[], ResultT]) -> ResultT:
    """The blocking twin of `astep`, for sync nodes.

    Raises:
        RunningLoopError: called in async code, whose event loop it would block.
        OutsideRunError: not called in a node.
        InvalidConfigError: the key is not a str, or is empty.
    """
    if in_event_loop():
        raise RunningLoopError(
            f"step({key!r}) was called in async code", do=f"`await astep({key!r}, ...)`"
        )
    scope, calls, identifier = _task_and_step("step()", key)
    known = calls.step_result(identifier)
    if known is not EMPTY:
        return known
    made = function()
    calls.store_step(scope, identifier, key, made).result()
    return made


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
    calls = scope.lineage.calls
    assert calls is not None
    return scope, calls, step_id(scope.task, key)
