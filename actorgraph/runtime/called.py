"""The `@task` calls of one run: the function, the caller's context and the future of each.

A call is a task of the run that the calling task belongs to; `superstep/calls.py` decides about it.
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


class TaskCall(msgspec.Struct, frozen=True):
    """One call of a `@task` function.

    Attributes:
        node: the function as a node.
        caller: the task that made the call.
        context: the caller's, copied at the call.
        futures: of this call and of the same call in earlier attempts of the caller.
    """

    node: NodePlan
    caller: TaskScope
    context: Context
    futures: list[TaskFuture[Any]]


class TaskCalls:
    """The `@task` calls of one run, and the results of its tasks' steps (`astep`, `step`).

    Args:
        report: takes the events.
        namespace: of the run.
        returned: returns the results of the superstep's finished calls and steps, by id.

    Attributes:
        running_steps: step id -> a gate that opens when the step has ended; of async nodes.
        limiter: limits the worker threads of sync nodes; set when the run begins.
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
        self._called: dict[str, TaskCall] = {}
        self._steps: dict[str, TaskFuture[Any]] = {}
        self._lock = threading.Lock()
        self.running_steps: dict[str, Gate] = {}
        self.limiter: anyio.CapacityLimiter | None = None
        self.closed = False

    def __getitem__(self, identifier: str) -> TaskCall:
        return self._called[identifier]

    def get(self, identifier: str) -> TaskCall | None:
        """The call behind a task; None if the task is no open `@task` call."""
        return self._called.get(identifier)

    def request(self, caller: TaskScope, node: NodePlan, given: Any) -> TaskFuture[Any]:
        """Start a function as a task of its own.

        Args:
            caller: the task that calls it.
            node: the function as a node.
            given: `(args, kwargs)`.
        Returns: the future of its return value.
        Raises:
            OutsideRunError: the caller's attempt is over.
        """
        # The number of the call is part of the id: in the next attempt of the caller the n-th
        # call has the same id, and so finds the stored result of this one.
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
            # An earlier attempt of the caller, cancelled since, may have made the same call.
            futures = [future] if known is None else [*known.futures, future]
            if self.closed:
                future.settle(None, _stopped_error(node.name))
                return future
            self._called[identifier] = TaskCall(node, caller, copy_context(), futures)
        self._report(TaskCalled(caller.task.id, task))
        return future

    def step_result(self, identifier: str) -> Any:
        """The stored result of a step; EMPTY if there is none."""
        return self._returned().get(identifier, EMPTY)

    def store_step(
        self, scope: TaskScope, identifier: str, key: str, value: Any
    ) -> TaskFuture[Any]:
        """Store the result of a step; the future has it once it is durable."""
        future: TaskFuture[Any] = TaskFuture(f"step {key}", scope, None, self.limiter)
        with self._lock:
            if self.closed:
                future.settle(None, _stopped_error(future.name))
                return future
            self._steps[identifier] = future
        self._report(StepKept(scope.task, key, value))
        return future

    def _drop(self, identifier: TaskId) -> None:
        self._report(CallDropped(identifier))

    def close(self) -> None:
        """End the calls of a run that has left: fail open futures, refuse later calls.

        Threads of abandoned sync nodes may still wait for a future, or make a call.
        """
        with self._lock:
            self.closed = True
            waiting = [*self._steps.values()]
            waiting += [future for called in self._called.values() for future in called.futures]
        for future in waiting:
            if not future.done():
                future.settle(None, _stopped_error(future.name))

    def report_to(self, report: Callable[[Event], None]) -> None:
        """Replace the function that takes the events."""
        self._report = report

    def answer(self, effect: AnswerCall) -> None:
        """Set the outcome of a call, or of the storing of a step, in its futures."""
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
            error = _stopped_error(called.node.name)
        for future in called.futures:
            future.settle(effect.value, error)
        if effect.error is not None:
            caller = called.caller.whole or called.caller
            caller.failed_calls = (*caller.failed_calls, called.futures[-1])
            if caller.over:
                # Warnings may be errors here, and no code of the program is there to get one.
                with suppress(LostErrorWarning):
                    warn_of_lost_errors(caller)


def warn_of_lost_errors(caller: TaskScope) -> None:
    """Warn of calls that failed, if their caller has returned without reading the errors."""
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


def _stopped_error(name: str) -> NodeCancelledError:
    return NodeCancelledError(
        f"task {name!r} was stopped before it returned",
        do="nothing, if its run is leaving or its caller gave it up; else call it again",
        node=name,
    )
