"""Calls of `@task` functions: futures for their callers, and who performs them.

A call is a task of the run that the calling task belongs to; `superstep/calls.py` decides
about it. Here is what the decision can't hold: the function, the caller's context, the future.
"""

import threading
from collections.abc import Callable, Generator, Mapping
from contextvars import Context, copy_context
from typing import Any, Generic, TypeVar

import anyio.from_thread
import msgspec

from actorgraph.channels import EMPTY
from actorgraph.errors import GraphDrained, GraphInterrupt, NodeCancelledError, RunningLoopError
from actorgraph.plan.graph import NodePlan
from actorgraph.runtime.context import TaskScope
from actorgraph.runtime.mailbox import Gate, running_loop
from actorgraph.superstep.tasks import path_key
from actorgraph.values.constants import CALL, PUSH
from actorgraph.values.ids import task_id
from actorgraph.values.run import AnswerCall, Event, StepKept, Task, TaskCalled

T = TypeVar("T")


class TaskFuture(Generic[T]):
    """The result of a call, once it is there. Await it, or in a sync node call `result()`."""

    def __init__(self, name: str, caller: TaskScope) -> None:
        self._name = name
        self._caller = caller
        self._gate = Gate()
        self._value: Any = None
        self._error: BaseException | None = None

    def __await__(self) -> Generator[Any, Any, T]:
        """Wait for the result.

        Raises:
            BaseException: what the function raised.
        """
        yield from self._gate.wait().__await__()
        return self._outcome()

    def result(self, timeout: float | None = None) -> T:
        """Wait for the result in a worker thread.

        Args:
            timeout: seconds; default without limit.
        Raises:
            RunningLoopError: it isn't there yet, and the caller runs in the event loop.
            TimeoutError: it didn't come in time.
            BaseException: what the function raised.
        """
        if not self._gate.is_open:
            if running_loop():
                raise RunningLoopError(
                    f"the result of task {self._name!r} is not there yet, and result() would stop "
                    "the event loop that makes it",
                    do="`await` the future, or call result() in a sync node",
                )
            anyio.from_thread.run(self._wait, timeout)
        return self._outcome()

    def done(self) -> bool:
        """Whether the call has ended."""
        return self._gate.is_open

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """What the function raised; None if it returned. Waits as `result` does."""
        try:
            self.result(timeout)
        except BaseException as error:  # noqa: BLE001 - it is the answer
            return error
        return None

    def settle(self, value: Any, error: BaseException | None = None) -> None:
        """Set what came of the call, once."""
        self._value, self._error = value, error
        self._gate.open()

    async def _wait(self, limit_s: float | None) -> None:
        with anyio.fail_after(limit_s):
            await self._gate.wait()

    def _outcome(self) -> T:
        if self._error is None:
            return self._value
        if isinstance(self._error, GraphInterrupt):
            self._caller.raised.extend(
                i for i in self._error.interrupts if i not in self._caller.raised
            )
        if isinstance(self._error, GraphDrained):
            self._caller.drained = self._error
        raise self._error


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
        """
        place = (PUSH, *caller.task.path, caller.next_call(), CALL)
        base = caller.lineage.base()
        identifier = task_id(base, self._namespace, node.name, caller.task.id, path_key(place))
        task = Task(
            id=identifier,
            name=node.name,
            path=place,
            triggers=(PUSH,),
            input=given,
            timeout=node.timeout,
            within=self._namespace,
            routed=caller.routed,
        )
        future: TaskFuture[Any] = TaskFuture(node.name, caller)
        with self._lock:
            known = self._called.get(identifier)
            if known is not None:  # an earlier attempt of the caller has made this call
                known.futures.append(future)
            else:
                self._called[identifier] = Called(node, caller, copy_context(), [future])
        self._report(TaskCalled(caller.task.id, task))
        return future

    def known(self, identifier: str) -> Any:
        """The stored result of a step; EMPTY for none."""
        return self._returned().get(identifier, EMPTY)

    def keep(self, scope: TaskScope, identifier: str, key: str, value: Any) -> TaskFuture[Any]:
        """Store the result of a step; the future has it once it is durable."""
        future: TaskFuture[Any] = TaskFuture(f"step {key}", scope)
        self._steps[identifier] = future
        self._report(StepKept(scope.task, key, value))
        return future

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
        error = effect.error
        if effect.interrupts is not None:
            error = GraphInterrupt(effect.interrupts)
        elif effect.gone:
            error = _gone(called.node.name)
        for future in called.futures:
            future.settle(effect.value, error)


def _gone(name: str) -> NodeCancelledError:
    return NodeCancelledError(
        f"task {name!r} was not run: its run is leaving",
        do="nothing, it runs when the thread goes on",
        node=name,
    )
