"""Side effects inside a node that are not to happen twice: `astep`, `step` and a key for services.

A node may run again: after a crash, a failure, a question. What it did in a step is not done
again: the result is stored, and the next attempt gets it. Between an effect and the storing of
its result a crash is still possible; a service that is given the task's idempotency key drops the
second request.
"""

import inspect
from collections.abc import Awaitable, Callable
from typing import TypeVar, cast, overload

from actorgraph.channels import EMPTY
from actorgraph.errors import InvalidConfigError, RunningLoopError
from actorgraph.loops import running_loop
from actorgraph.runtime.called import Calls
from actorgraph.runtime.context import TaskScope, current
from actorgraph.runtime.injection import runtime_of
from actorgraph.runtime.mailbox import Gate
from actorgraph.superstep.memos import step_id

T = TypeVar("T")


@overload
async def astep(key: str, function: Callable[[], Awaitable[T]]) -> T: ...
@overload
async def astep(key: str, function: Callable[[], T]) -> T: ...
async def astep(key: str, function: Callable[[], Awaitable[T] | T]) -> T:
    """Have something done once for the running task, also when its node runs again.

    The result is stored before this returns (in exit durability when the run leaves), and a later
    attempt of the task gets it without a call: `receipt = await astep("charge", charge)`. What
    `function` raises is raised and not stored.

    Args:
        key: tells the task's steps apart; the same key gives the same result.
        function: async or sync; a sync one runs in the event loop, so it must be quick.
    Returns: the result; anything that can be stored.
    Raises:
        OutsideRunError: not called in a node.
        InvalidConfigError: the key is no text, or empty.
    """
    scope, calls, identifier = _place("astep()", key)
    while (gate := calls.doing.get(identifier)) is not None:
        await gate.wait()
    known = calls.known(identifier)
    if known is not EMPTY:
        return known
    gate = calls.doing[identifier] = Gate()
    try:
        value = function()
        made = await value if inspect.isawaitable(value) else value
        await calls.keep(scope, identifier, key, made)
    finally:
        del calls.doing[identifier]
        gate.open()
    return cast("T", made)


def step(key: str, function: Callable[[], T]) -> T:
    """The blocking twin of `astep`, for sync nodes.

    Raises:
        RunningLoopError: called in async code, which it would stop.
        OutsideRunError: not called in a node.
        InvalidConfigError: the key is no text, or empty.
    """
    if running_loop():
        raise RunningLoopError(
            f"step({key!r}) was called in async code", do=f"`await astep({key!r}, ...)`"
        )
    scope, calls, identifier = _place("step()", key)
    known = calls.known(identifier)
    if known is not EMPTY:
        return known
    made = function()
    calls.keep(scope, identifier, key, made).result()
    return made


def get_idempotency_key(part: str = "") -> str:
    """A key for a request to a service that drops a second one with the same key.

    The same for every attempt of the running task, also after a crash; another one for every
    other task.

    Args:
        part: tells several requests of one task apart.
    Raises:
        OutsideRunError: not called in a node.
    """
    info = runtime_of(current("get_idempotency_key()")).execution_info
    assert info is not None
    return f"{info.idempotency_key}/{part}" if part else info.idempotency_key


def _place(what: str, key: str) -> tuple[TaskScope, Calls, str]:
    """The running task, where its run keeps results, and the id of the step."""
    scope = current(what)
    if not isinstance(key, str) or not key:
        raise InvalidConfigError(f"{what} got the key {key!r}", do="name the step with a text")
    if scope.progress is not None:
        scope.progress()
    calls = scope.lineage.calls
    assert calls is not None
    return scope, calls, step_id(scope.task, key)
