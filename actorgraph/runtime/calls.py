"""Calling a node: in a context of its own, in a worker thread if it is sync.

Raises what the node raised, with groups of interrupts taken apart: only interrupts -> they are
the result; anything else among them -> the error wins.
"""

import inspect
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, ContextVar
from dataclasses import replace
from threading import get_ident
from typing import Any, Generic, TypeVar

import anyio.lowlevel
import anyio.to_thread

from actorgraph.errors import GraphInterrupt, ParentCommand
from actorgraph.plan.graph import NodePlan, Plan
from actorgraph.runtime.context import CURRENT, TaskScope
from actorgraph.runtime.injection import injected
from actorgraph.runtime.interop import translated
from actorgraph.runtime.live import Live
from actorgraph.superstep.results import branch_targets, branch_view, writes_of
from actorgraph.superstep.stamps import stamped
from actorgraph.values.run import Write

T = TypeVar("T")
Made = tuple[list[Write], list[str]]
"""What a call made: the task's writes, and a sentence for each dropped key."""

MAX_THREADS = 256
"""Worker threads for sync nodes, per event loop. Anyio's default of 40, shared with the
application, deadlocks when 40 sync nodes each wait for a graph with a sync node."""

_LIMITER: anyio.lowlevel.RunVar[anyio.CapacityLimiter] = anyio.lowlevel.RunVar("actorgraph_threads")
SYSTEM_LIMITER: ContextVar[anyio.CapacityLimiter | None] = ContextVar(
    "actorgraph_system_threads", default=None
)
"""Set in the runs of an ActorSystem with `max_threads`."""

_BUSY: dict[int, TaskScope | None] = {}
"""Worker threads that run a function of the user's -> for which task."""


def thread_limiter() -> anyio.CapacityLimiter:
    """The limiter for sync nodes: the ActorSystem's, or the running loop's."""
    own = SYSTEM_LIMITER.get()
    if own is not None:
        return own
    try:
        return _LIMITER.get()
    except LookupError:
        limiter = anyio.CapacityLimiter(MAX_THREADS)
        _LIMITER.set(limiter)
        return limiter


class InContext(Generic[T]):
    """Awaits a coroutine in a context of its own, inside the running task.

    An actor's task runs node after node; without this, what one sets in a contextvar would
    leak into the next, and a task started per call costs a third of the throughput.
    With `live`, what it awaits goes on only when the reader of its chunks has caught up.
    """

    __slots__ = ("_context", "_coroutine", "_live")

    def __init__(
        self, context: Context, coroutine: Coroutine[Any, Any, T], live: Live | None = None
    ) -> None:
        self._context = context
        self._coroutine = coroutine
        self._live = live

    def __await__(self) -> Generator[Any, Any, T]:
        run, coroutine, live = self._context.run, self._coroutine, self._live
        try:
            trap = run(coroutine.send, None)
        except StopIteration as done:  # nearly every call that waits for nothing
            return done.value
        try:
            while True:
                try:
                    answer = yield trap
                    if live is not None and live.lags:
                        yield from live.pace_shielded().__await__()
                except GeneratorExit:
                    raise
                except BaseException as error:  # noqa: BLE001 - cancellations pass through too
                    trap = run(coroutine.throw, error)
                else:
                    trap = run(coroutine.send, answer)
        except StopIteration as done:
            return done.value
        finally:
            run(coroutine.close)


async def call_node(
    plan: Plan, node: NodePlan, values: dict[str, Any], given: Any, scope: TaskScope
) -> Made:
    """Run a node and its conditional edges.

    Args:
        values: the state at the start of the superstep; conditional edges see it with this
            task's own writes. Not modified.
    Returns: the task's writes, and a sentence for each dropped key.
    """
    try:
        if node.is_async and not node.inject:
            returned = await node.call(given)
        else:
            returned = await call_function(
                node.call, node.is_async, given, injected(node.inject, scope)
            )
    except (ParentCommand, Exception) as error:
        up = translated(error)  # a graph that the node ran tells this one what to do
        if not isinstance(up, ParentCommand) or scope.caller is not None:
            raise  # a call has no routes: it is for the node that made it
        returned = replace(up.command, graph=None)
    writes, dropped = writes_of(plan, node, returned, nested=scope.lineage.nested)
    if scope.pushed:
        writes.extend(scope.pushed)
    if node.cache is not None:
        scope.made = list(writes)
    if plan.stamps:
        writes = stamped(plan, writes, scope.task.id)
    if node.branches:
        writes.extend(await branch_writes(plan, node, values, writes, scope))
    return writes, dropped


async def branch_writes(
    plan: Plan,
    node: NodePlan,
    values: dict[str, Any],
    writes: list[Write],
    scope: TaskScope | None = None,
) -> list[Write]:
    """Where the conditional edges of a node lead, given the state and the node's own writes."""
    targets: list[Write] = []
    for branch in node.branches:
        seen = branch_view(plan, values, branch, writes)
        if branch.is_async and not branch.inject:
            answer = await branch.path(seen)
        else:
            extra = injected(branch.inject, scope) if scope else {}
            answer = await call_function(branch.path, branch.is_async, seen, extra)
        targets.extend(branch_targets(plan, node.name, branch, answer))
    return targets


async def call_function(
    function: Callable[..., Any], is_async: bool, given: Any, extra: dict[str, Any]
) -> Any:
    """What a function of the user's returns: called here, or in a worker thread if it is sync."""
    if is_async:
        return await function(given, **extra)

    def work() -> tuple[Any, GeneratorExit | None]:  # trio lets no thread return a bare coroutine
        thread = get_ident()
        _BUSY[thread] = CURRENT.get(None)
        try:
            return (function(given, **extra) if extra else function(given)), None
        except GeneratorExit as error:  # thrown into asyncio's task it would end the actor
            return None, error
        finally:
            del _BUSY[thread]

    # A thread can't be stopped: a cancelled call is abandoned and its result dropped.
    returned, exited = await anyio.to_thread.run_sync(
        work, abandon_on_cancel=True, limiter=thread_limiter()
    )
    if exited is not None:
        raise exited
    return await returned if inspect.isawaitable(returned) else returned


def abandoned() -> list[str]:
    """The nodes of cancelled runs that still run in their threads; they can't be stopped."""
    scopes = list(_BUSY.values())
    return sorted(scope.task.name for scope in scopes if scope is not None and scope.cancelled)


def real_error(error: BaseException) -> BaseException | None:
    """What counts of an exception: None if it holds interrupts only."""
    if isinstance(error, GraphInterrupt):
        return None
    if isinstance(error, BaseExceptionGroup):
        _, rest = error.split(GraphInterrupt)
        return rest.exceptions[0] if rest and _only_parent_commands(rest) else rest
    return error


def _only_parent_commands(group: BaseExceptionGroup[BaseException]) -> bool:
    return group.split(ParentCommand)[1] is None and len(group.exceptions) == 1
