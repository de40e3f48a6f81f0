"""Call a node: with its injected arguments, in its own context, in a thread if it is sync.

`node_writes` and `branch_writes` choose the thread of a plain function: that of a blocking call
that runs its graph itself (`runtime.stepper`), or of one of its helpers; else a worker thread
(`runtime.task.hops`), of which `thread_limiter` allows some at once. The plain routers of async
nodes share one (`runtime.task.router_threads`).

An exception group of a node counts as its interrupts if it holds nothing else; otherwise as its
other errors. Cached nodes: the node's own writes are cached, and its conditional edges are
evaluated anew, with the graph and the state of the run that uses them.

A plain router is called on the event loop by declaration only (`BranchPlan.inline`); the clock
never changes that, it only finds a declaration that doesn't hold. In a blocking call's own thread,
and with its node in a worker thread, it holds up no event loop, however long it takes.
"""

import inspect
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping
from contextlib import contextmanager
from contextvars import Context, ContextVar
from functools import partial
from threading import get_ident
from time import perf_counter
from typing import Any, Final, Generic, TypeVar, cast
from weakref import WeakKeyDictionary

import anyio
import anyio.from_thread

from actorgraph.codec.conversions import migrated_hand_over, this_version
from actorgraph.errors import GraphInterrupt, ParentCommand, SlowRouterWarning
from actorgraph.errors.tracebacks import from_program
from actorgraph.errors.warning_places import warn
from actorgraph.loops import current_loop, in_event_loop
from actorgraph.plan.plan import BranchPlan, CallDuration, NodePlan, Plan
from actorgraph.runtime import portal
from actorgraph.runtime.stepper import HERE, steps_here
from actorgraph.runtime.task.call_errors import translated
from actorgraph.runtime.task.functions import injected
from actorgraph.runtime.task.hops import hop
from actorgraph.runtime.task.live import LiveStream, Writer
from actorgraph.runtime.task.result_cache import CachedPlace
from actorgraph.runtime.task.router_threads import RouterThreads
from actorgraph.runtime.task.runtime import RunResources
from actorgraph.runtime.task.scope import CURRENT, RunContext, TaskScope
from actorgraph.runtime.worker_threads import BUSY
from actorgraph.superstep.handover import hands_over, joined, made_for, raised, received
from actorgraph.superstep.results import (
    NOTHING_PASSED,
    branch_targets,
    branch_view,
    passed_on,
    stamped,
    writes_of,
)
from actorgraph.superstep.run_state import RunState
from actorgraph.superstep.untracked import is_storable
from actorgraph.values.commands import Command, Send
from actorgraph.values.constants import INTERRUPT, START
from actorgraph.values.ids import task_id
from actorgraph.values.run import NOTHING_ROUTED, HandOver, Task, Write

T = TypeVar("T")
NodeWrites = tuple[list[Write], list[str]]
"""The task's writes, and a sentence for each key that was dropped from the node's result."""

MAX_THREADS = 256
"""Worker threads for sync nodes, per event loop. Anyio's default of 40, shared with the
application, deadlocks when 40 sync nodes each wait for a subgraph with a sync node."""

_THREADS: WeakKeyDictionary[object, RouterThreads] = WeakKeyDictionary()
"""Of each event loop, with its limiter; anyio's RunVar takes three times as long to find one."""
SYSTEM_THREADS: ContextVar[tuple[object, RouterThreads] | None] = ContextVar(
    "actorgraph_system_threads", default=None
)
"""Set in the runs of an ActorSystem with `max_threads`: its event loop, and its threads."""
SYSTEM_LEASE: ContextVar[Callable[[], Awaitable[None]] | None] = ContextVar(
    "actorgraph_system_lease", default=None
)
"""Set in the runs of an ActorSystem with a lease: returns while that holds, else never."""


def router_threads() -> RouterThreads:
    """The threads for routers: the ActorSystem's in its loop, or the running loop's."""
    own, loop = SYSTEM_THREADS.get(), current_loop()
    # A node's function may run graphs on another loop: a limiter can't be waited for there.
    if own is not None and own[0] is loop:
        return own[1]
    threads = _THREADS.get(loop)
    if threads is None:
        threads = _THREADS[loop] = RouterThreads(anyio.CapacityLimiter(MAX_THREADS))
    return threads


def thread_limiter() -> anyio.CapacityLimiter:
    """The limiter for sync nodes: the ActorSystem's in its loop, or the running loop's."""
    return router_threads().limiter


_NOT_BEGUN: Final = object()


class InContext(Generic[T]):
    """Awaits a coroutine in a context of its own, inside the running task.

    An actor's task runs node after node; without this, a contextvar that one node sets would
    leak into the next, and a task started per call costs a third of the throughput.
    With `live`, the coroutine resumes only when the reader of its chunks has caught up. With
    `lease`, it begins when that has returned, and with nothing in between: a process may be
    stopped at any moment, and begins what it was about to begin when it goes on.

    A caller may take the first step itself, in the context; `trap` is what that has yielded.
    """

    __slots__ = ("_context", "_coroutine", "_lease", "_live", "_trap")

    def __init__(
        self,
        context: Context,
        coroutine: Coroutine[Any, Any, T],
        live: LiveStream | None = None,
        lease: Callable[[], Awaitable[None]] | None = None,
        *,
        trap: Any = _NOT_BEGUN,
    ) -> None:
        self._context = context
        self._trap = trap
        self._coroutine = coroutine
        self._lease = lease
        self._live = live

    def __await__(self) -> Generator[Any, Any, T]:
        run, coroutine, live, trap = self._context.run, self._coroutine, self._live, self._trap
        if self._lease is not None:
            try:
                yield from self._lease().__await__()
            except BaseException:
                coroutine.close()
                raise
        if trap is _NOT_BEGUN:
            try:
                trap = run(coroutine.send, None)
            except StopIteration as done:  # the coroutine has returned without waiting
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
            run(coroutine.close)  # its `finally` blocks see their own context too


def call_node(
    plan: Plan, node: NodePlan, values: dict[str, Any], given: Any, scope: TaskScope
) -> Coroutine[Any, Any, NodeWrites]:
    """Run a node and its conditional edges; plain functions of both in one worker thread.

    Args:
        values: the state at the start of the superstep; conditional edges see it with this
            task's own writes. Not modified.
        given: the node's input.
    Returns: the task's writes, and a sentence for each dropped key.
    Raises: the node's error.
    """
    observer = scope.observer
    if observer is not None and not observer.entered:
        observer.entered = True
        return observer.around(node, given, call_node(plan, node, values, given, scope))
    if HERE.stepper is not None and steps_here():
        return node_writes(plan, node, values, given, scope, here=True)
    if node.one_hop:
        work = partial(node_writes, plan, node, values, given, scope, here=True)
        return in_thread(work, node.duration)
    return node_writes(plan, node, values, given, scope)


async def node_writes(
    plan: Plan,
    node: NodePlan,
    values: dict[str, Any],
    given: Any,
    scope: TaskScope,
    *,
    here: bool = False,
) -> NodeWrites:
    """As `call_node`.

    Args:
        here: whether this thread may block: plain functions are called in it.
    """
    try:
        extra = injected(node.inject, scope) if node.inject else _NOTHING
        if node.is_async:
            returned = await node.call(given, **extra)
        elif here:
            stepper = HERE.stepper
            try:  # as `call_user`, without its frame, which a debugger would show
                if stepper is not None:
                    stepper.enter_function(scope)
                returned = node.call(given, **extra)
            finally:
                if stepper is not None:
                    try:
                        stepper.leave_function()
                    except BaseException:
                        stepper.leave_function()
                        raise
            returned = returned if type(returned) in _NO_AWAITABLES else settled(returned)
        else:
            returned = await call_function(node.call, node.is_async, given, extra)
    except (ParentCommand, BaseExceptionGroup, Exception) as error:
        if (up := _handed_up(plan, scope, error)) is None:
            raise
        returned = received(plan, node, values, up)
    writes, dropped = _writes_of_result(plan, node, returned, scope)
    if node.branches and not (scope.run_context.above is not None and hands_over(writes)):
        passed = NOTHING_PASSED
        if dropped or node.own or node.name == START:  # else every key is a channel
            passed = passed_on(node, returned)
            scope.passes_on = bool(passed)
        writes.extend(
            await branch_writes(plan, node, values, writes, scope, here=here, passed=passed)
        )
    return writes, dropped


def _writes_of_result(plan: Plan, node: NodePlan, returned: Any, scope: TaskScope) -> NodeWrites:
    """The writes of a node's result, without those of its conditional edges."""
    if scope.observer is not None:
        scope.observer.returned = returned
    nested = scope.run_context.above is not None
    writes, dropped = writes_of(plan, node, returned, nested=nested)
    writes = _with_version(writes, scope) if nested else writes
    if scope.pushed:
        writes.extend(scope.pushed)
    if scope.reads is not None:  # the node's own part ends here
        scope.made = list(writes)
        scope.reads.close()
    return stamped(plan, writes, scope.task.id) if plan.stamps else writes, dropped


def _handed_up(plan: Plan, scope: TaskScope, error: BaseException) -> ParentCommand | None:
    """What a node's subgraph hands to this graph by an error; None if that is an error."""
    up = joined(translated(error))
    # `Command(graph=PARENT)` is this node's result; a `@task` call passes it to its caller.
    if up is None or scope.caller is not None:
        return None
    scope.messages = None  # the subgraph has streamed its messages
    if not plan.migrations or not isinstance(up.handed, HandOver):
        return up
    return raised(migrated_hand_over(plan, up.handed))  # an older version may have stored it


def _with_version(writes: list[Write], scope: TaskScope) -> list[Write]:
    """Note the version of the graph above with a Command for it, if it has migrations."""
    above = scope.run_context.above
    plan = None if above is None else above.run_context.state.plan
    if plan is None or not plan.migrations or not hands_over(writes):
        return writes
    return made_for(writes, this_version(plan))


async def branch_writes(
    plan: Plan,
    node: NodePlan,
    values: dict[str, Any],
    writes: list[Write],
    scope: TaskScope | None = None,
    *,
    here: bool = False,
    passed: Mapping[str, Any] = NOTHING_PASSED,
) -> list[Write]:
    """Evaluate the conditional edges of a node. Returns the writes that trigger their targets.

    Args:
        values: the state at the start of the superstep. Not modified.
        writes: the node's own; the edges see the state with them.
        scope: for injected parameters; None injects none.
        here: whether this thread may block.
        passed: see `passed_on`.
    """
    targets: list[Write] = []
    observer = None if scope is None else scope.observer
    for place, branch in enumerate(node.branches):
        if observer is not None:
            branch = observer.observed(branch, place)  # noqa: PLW2901
        seen = branch_view(plan, values, branch, writes, passed)
        extra = injected(branch.inject, scope) if scope and branch.inject else _NOTHING
        if branch.is_async:
            answer = await branch.path(seen, **extra)
        elif branch.inline:
            answer = call_inline(node.name, branch, seen, extra)
            if inspect.isawaitable(answer):
                answer = wait_for(answer) if here or steps_here() else await answer
        elif here or steps_here():
            answer = settled(call_user(branch.path, seen, **extra))
        else:
            answer = await router_threads().call(branch, seen, extra)
            if type(answer) not in _NO_AWAITABLES and inspect.isawaitable(answer):
                answer = await answer
        targets.extend(branch_targets(plan, node.name, branch, answer))
    return targets


async def call_cached(
    plan: Plan, node: NodePlan, values: dict[str, Any], given: Any, scope: TaskScope
) -> NodeWrites:
    """Run a node as `call_node` does, unless its writes for this input are cached."""
    cache, policy = scope.run_context.cache, node.cache
    assert cache is not None
    assert policy is not None
    reads = scope.reads
    assert reads is not None
    reads.take()  # the library has read what it hands to the node
    key = cache.key_of(policy, node, given)
    if key is None:
        return await call_node(plan, node, values, given, scope)
    chosen = reads.take()  # what a `key_func` has read is in the key as far as it wants it there
    place = CachedPlace(cache, node, key, scope, policy.ttl)
    cached = _usable(plan, node, await place.find())
    if cached is not None:
        reads.note(place.names)  # for the cached nodes that this one is part of
        return await _cached_writes(plan, node, values, cached, scope)
    writes = await call_node(plan, node, values, given, scope)
    # Answers of a person don't follow from the input, and a question is not a result. Keys that
    # only the routers see are not among the writes, so that a cached result would lack them.
    asked = scope.answers or scope.took_unaddressed or scope.raised or scope.routed
    asked = asked or hands_over(scope.made)
    if not (asked or scope.drained or scope.passes_on):
        own = _own_writes(node, scope)
        # Untracked values may not be stored, and without them the result would be incomplete.
        if not plan.untracked or is_storable(plan.untracked, own):
            await place.keep([list(write) for write in own], reads.take() - chosen)
    return writes


async def _cached_writes(
    plan: Plan, node: NodePlan, values: dict[str, Any], cached: list[Write], scope: TaskScope
) -> NodeWrites:
    scope.cached = True
    writes = [*cached, *node.targets]
    if plan.stamps:
        writes = stamped(plan, writes, scope.task.id)
    if node.branches:
        writes.extend(await branch_writes(plan, node, values, writes, scope))
    return writes, []


def _own_writes(node: NodePlan, scope: TaskScope) -> list[Write]:
    """The node's writes without those of its static edges, which come before the pushed ones."""
    writes, pushed = scope.made, len(scope.pushed)
    end = len(writes) - pushed
    return [*writes[: end - len(node.targets)], *writes[end:]]


def _usable(plan: Plan, node: NodePlan, cached: Any) -> list[Write] | None:
    """The cached writes, if this graph still has all channels that they go to; else None."""
    if not isinstance(cached, list):
        return None
    writes: list[Write] = [(channel, value) for channel, value in cached]
    known = all(channel in node.writes or channel in plan.channels for channel, _ in writes)
    return writes if known else None


async def call_function(
    function: Callable[..., Any], is_async: bool, given: Any, extra: dict[str, Any]
) -> Any:
    """Call a user's function: here if it is async, in a worker thread if it is plain.

    Args:
        given: the positional argument.
        extra: keyword arguments.
    Returns: its return value; an awaitable that a sync function returns is awaited.
    Raises: its error.
    """
    if is_async:
        return await function(given, **extra)

    if steps_here():
        return settled(call_user(function, given, **extra))

    async def call() -> tuple[Any]:  # a tuple: trio refuses a bare coroutine as a thread's result
        return (function(given, **extra),)

    (returned,) = await in_thread(call)
    return await returned if inspect.isawaitable(returned) else returned


_NOTHING: dict[str, Any] = {}
_NO_AWAITABLES = frozenset({dict, str, list, type(None), bool, Command, Send})


def call_user(function: Callable[..., T], *args: Any, **more: Any) -> T:
    """Call a function of the program in this thread, which may block.

    In a stepper's thread the program's handlers of signals are in place meanwhile.
    """
    stepper = HERE.stepper
    try:
        if stepper is not None:
            stepper.enter_function(CURRENT.get(None))
        return function(*args, **more)
    finally:
        if stepper is not None:
            try:
                stepper.leave_function()
            except BaseException:  # of a handler that was still in place, also in its first line
                stepper.leave_function()
                raise


def settled(returned: Any) -> Any:
    """Return the result of a plain function, awaited if it must be; in a thread that may block."""
    if type(returned) in _NO_AWAITABLES or not inspect.isawaitable(returned):
        return returned
    return wait_for(returned)


async def call_plain(work: Callable[[], T]) -> T:
    """Call a plain function that a node needs: in a stepper's thread, else in a worker thread.

    A cancelled call in a worker thread is abandoned.
    """
    if steps_here():
        return call_user(work)
    return await hop(work, thread_limiter())


async def _awaited(returned: Awaitable[Any]) -> Any:
    return await returned


def wait_for(returned: Awaitable[T]) -> T:
    """Await what a plain function has returned, from a worker thread."""
    stepper = HERE.stepper
    if stepper is not None and steps_here():
        return stepper.call_in_portal(_awaited, returned)
    try:
        return anyio.from_thread.run(_awaited, returned)
    except anyio.NoEventLoopError:  # a helper's thread
        return portal.call(_awaited, returned)


async def in_thread(
    work: Callable[[], Coroutine[Any, Any, T]], duration: CallDuration | None = None
) -> T:
    """Run a coroutine that never waits in a worker thread; cancelled, it is abandoned there.

    Args:
        duration: the node's; see `hop`.
    """

    def step() -> tuple[T | None, BaseException | None]:
        thread = get_ident()
        BUSY[thread] = CURRENT.get(None)
        try:
            return stepped(work()), None
        except BaseException as error:  # noqa: BLE001 - raised in the loop's coroutine
            return None, from_program(error)
        finally:
            BUSY.pop(thread, None)

    value, error = await hop(step, thread_limiter(), duration)
    if error is None:
        return cast("T", value)
    try:
        raise error
    finally:
        del error  # an error whose traceback leads to itself is freed late


def stepped(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    coroutine.close()
    msg = "the call of a plain function tried to wait in a worker thread"
    raise AssertionError(msg)


def abandoned() -> list[str]:
    """Names of the nodes of cancelled runs that still run in threads, which can't be stopped."""
    scopes = cast("list[TaskScope | None]", list(BUSY.values()))
    return sorted(scope.task.name for scope in scopes if scope is not None and scope.cancelled)


def real_error(error: BaseException) -> BaseException | None:
    """The error in an exception; None if it holds only interrupts.

    Of a group, its part without interrupts; of nothing but Commands for the graph above, those in
    one. Beside an interrupt they wait for its answer: the graphs that gave them will again.
    """
    if isinstance(error, GraphInterrupt):
        return None
    if isinstance(error, BaseExceptionGroup):
        asked, rest = error.split(GraphInterrupt)
        up = None if rest is None else joined(rest)
        if up is not None:
            return None if asked is not None else up
        return rest
    return error


@contextmanager
def edge_scope(
    state: RunState, name: str, *, run: bytes, config: dict[str, Any], resources: RunResources
) -> Generator[TaskScope]:
    """Set up the scope of a node's conditional edges during an update as that node.

    They see the config and the stores; chunks that they send are dropped.

    Args:
        name: of the node.
        run: id of the run that the update counts as.
        config: the caller's.
    """
    identifier = task_id(state.checkpoint, state.namespace, name, INTERRUPT)
    task = Task(identifier, name, (INTERRUPT, name), (), None, within=state.namespace)
    run_context = RunContext(
        thread_id=state.thread_id,
        namespace=state.namespace,
        run=run,
        epoch=0,
        host=None,
        policy=state.policy,
        broadcast=None,
        state=state,
        loaded=None,
        routed=NOTHING_ROUTED,
        resources=resources,
    )
    scope = TaskScope(task, config, Writer(None), [], run_context)
    token = CURRENT.set(scope)
    try:
        yield scope
    finally:
        CURRENT.reset(token)


SLOW_S = 0.05
_WARNED_MAX = 1000
_warned: set[tuple[str, str, str]] = set()
"""Node, branch and function of each slow router, so that each is named once per process."""


def call_inline(node: str, branch: BranchPlan, seen: Any, extra: dict[str, Any]) -> Any:
    """Call a router here.

    Args:
        node: the name of the node whose conditional edge it is.
        seen: the state as the router gets it.
        extra: its injected parameters.
    Returns: its answer, which may be an awaitable.
    Raises: its error.
    """
    began = perf_counter()
    answer = branch.path(seen, **extra) if extra else branch.path(seen)
    took = perf_counter() - began
    if took > SLOW_S and in_event_loop():
        _warn(node, branch, took)
    return answer


def _warn(node: str, branch: BranchPlan, took: float) -> None:
    path = branch.path
    function = f"{getattr(path, '__module__', '')}.{getattr(path, '__qualname__', '')}"
    key = (node, branch.name, function)
    if key in _warned or len(_warned) >= _WARNED_MAX:
        return
    _warned.add(key)
    warn(
        f"the router {branch.name!r} of node {node!r} held up the event loop for "
        f"{took * 1000:.0f} ms; it is called there because: {branch.why}\n"
        "  Do this: leave inline=True out, or give inline=False, to call it in a worker thread; or "
        "make it async and await what it waits for",
        SlowRouterWarning,
        about=path,
    )
