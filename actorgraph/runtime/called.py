"""Calls of `@task` functions: who performs them, and who waits for them.

A call is a task of the run that the calling task belongs to; `superstep/calls.py` decides
about it. Here is what the decision can't hold: the function, the caller's context, the future.
"""

import threading
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import Context, copy_context
from functools import partial
from typing import Any

import anyio
import msgspec

from actorgraph.channels import EMPTY
from actorgraph.errors import GraphInterrupt, LostErrorWarning, NodeCancelledError
from actorgraph.errors.telling import error_repr
from actorgraph.plan.graph import NodePlan
from actorgraph.runtime.context import TaskScope
from actorgraph.runtime.futures import TaskFuture
from actorgraph.runtime.mailbox import Gate
from actorgraph.superstep.tasks import path_key
from actorgraph.values.constants import CALL, PUSH
from actorgraph.values.ids import TaskId, task_id
from actorgraph.values.run import (
    AnswerCall,
    CallDropped,
    Event,
    StepKept,
    Task,
    TaskCalled,
)


class Called(msgspec.Struct, frozen=True):
    """One call: the function as a node, who made it and in which context."""

    node: NodePlan
    caller: TaskScope
    context: Context
    futures: list[TaskFuture[Any]]


class Calls:
    """The calls of one run.

    Args:
        report: takes the events.
        namespace: of the run.
        returned: the results that the superstep has, by id.

    Attributes:
        doing: gates of the steps that async nodes are doing now, by id.
        limiter: of the worker threads of sync nodes; set when the run begins.
        closed: whether the run has left.
    """

    def __init__(
        self,
        report: Callable[[Event], None],
        namespace: str,
        returned: Callable[[], Mapping[str, Any]],
    ) -> None:
        self._report = report
        self._returned = returned
        self._namespace = namespace
        self._called: dict[str, Called] = {}
        self._steps: dict[str, TaskFuture[Any]] = {}
        self._lock = threading.Lock()
        self.doing: dict[str, Gate] = {}
        self.limiter: anyio.CapacityLimiter | None = None
        self.closed = False

    def __getitem__(self, identifier: str) -> Called:
        return self._called[identifier]

    def get(self, identifier: str) -> Called | None:
        """The call of a task; None for a task that nobody called."""
        return self._called.get(identifier)

    def request(self, caller: TaskScope, node: NodePlan, given: Any) -> TaskFuture[Any]:
        """Have a function run as a task of its own.

        Args:
            caller: the task that calls it; its calls count from 0 in each attempt.
            given: `(args, kwargs)`.
        Raises:
            OutsideRunError: the caller's attempt is over.
        """
        path = (PUSH, *caller.task.path, caller.next_call(), node.name, CALL)
        place = (self._namespace, caller.task.id, caller.key, path_key(path))
        identifier = task_id(caller.lineage.base(), *place)
        task = Task(
            id=identifier,
            name=node.name,
            path=path,
            triggers=(PUSH,),
            input=given,
            timeout=node.timeout,
            within=caller.task.namespace,
            routed=caller.routed,
        )
        drop = partial(self._drop, identifier)
        future: TaskFuture[Any] = TaskFuture(node.name, caller, drop, self.limiter)
        with self._lock:
            known = self._called.get(identifier)
            # An earlier attempt of the caller may have made this call, and have been cancelled.
            futures = [future] if known is None else [*known.futures, future]
            if self.closed:
                future.settle(None, _gone(node.name))
                return future
            self._called[identifier] = Called(node, caller, copy_context(), futures)
        self._report(TaskCalled(caller.task.id, task))
        return future

    def known(self, identifier: str) -> Any:
        """The stored result of a step; EMPTY for none."""
        return self._returned().get(identifier, EMPTY)

    def keep(self, scope: TaskScope, identifier: str, key: str, value: Any) -> TaskFuture[Any]:
        """Store the result of a step; the future has it once it is durable."""
        future: TaskFuture[Any] = TaskFuture(f"step {key}", scope, None, self.limiter)
        with self._lock:
            if self.closed:
                future.settle(None, _gone(future.name))
                return future
            self._steps[identifier] = future
        self._report(StepKept(scope.task, key, value))
        return future

    def _drop(self, identifier: TaskId) -> None:
        self._report(CallDropped(identifier))

    def close(self) -> None:
        """The run has left: nobody waits for ever, and nothing more is begun in its name.

        A thread that the run has abandoned may still be in a node.
        """
        with self._lock:
            self.closed = True
            waiting = [*self._steps.values()]
            waiting += [future for called in self._called.values() for future in called.futures]
        for future in waiting:
            if not future.done():
                future.settle(None, _gone(future.name))

    def part(self, report: Callable[[Event], None]) -> None:
        """Report to somebody else from now on."""
        self._report = report

    def answer(self, effect: AnswerCall) -> None:
        """Hand a call's outcome to whoever waits for it."""
        step = self._steps.pop(effect.task, None)
        if step is not None:
            step.settle(effect.value)
            return
        with self._lock:
            called = self._called.pop(effect.task, None)
        if called is None:
            return
        error = effect.drained if effect.error is None else effect.error
        if effect.interrupts is not None:
            error = GraphInterrupt(effect.interrupts)
        elif effect.gone:
            error = _gone(called.node.name)
        for future in called.futures:
            future.settle(effect.value, error)
        if effect.error is not None:
            caller = called.caller.whole or called.caller
            caller.failed_calls = (*caller.failed_calls, called.futures[-1])
            if caller.over:
                with suppress(LostErrorWarning):  # there is no code of the program to raise it in
                    warn_of_lost_errors(caller)


def warn_of_lost_errors(caller: TaskScope) -> None:
    """Tell of calls that failed and of which the caller, which has returned, never heard."""
    failed, caller.failed_calls = caller.failed_calls, ()
    for future in failed:
        if not future.looked_at and (error := future.exception()) is not None:
            warnings.warn(
                f"task {future.name!r} raised {error_repr(error)}, and "
                f"{caller.task.name!r} returned without waiting for it; the run goes on\n"
                "  Do this: await the future, or call its result()",
                LostErrorWarning,
                stacklevel=2,
            )


def _gone(name: str) -> NodeCancelledError:
    return NodeCancelledError(
        f"task {name!r} was stopped before it returned",
        do="nothing, if its run is leaving or its caller gave it up; else call it again",
        node=name,
    )
