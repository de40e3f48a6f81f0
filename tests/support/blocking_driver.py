"""Tests that were written for the async driver, run under the blocking one.

`installed()` changes two things about every graph. Its async functions become plain ones, before
the graph is compiled to its end. And the async methods that a test awaits call their blocking
twins, in a thread of their own, while the test's event loop goes on.

A function that only returns, or awaits graphs and `@task` calls, is stepped where it was called.
One that waits for something else does so in the test's event loop, and the thread that has called
it blocks until it has ended: so a test may open its gates. Calls of graphs that it awaits are made
in that thread meanwhile.

A test that is cancelled cancels its blocking calls, as Ctrl-C does, and waits for their end.
"""

import asyncio
import functools
import inspect
import queue
import threading
from asyncio import _get_running_loop
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType, MethodType
from typing import Any, Self, TypeVar, cast

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest

import actorgraph
from actorgraph import CompiledStateGraph
from actorgraph.api.functional.task_functions import TaskFunction
from actorgraph.api.graph.graph_settings import GraphSettings
from actorgraph.loops import on_trio
from actorgraph.plan import callables
from actorgraph.plan.plan import NodePlan, Plan
from actorgraph.runtime import portal
from actorgraph.runtime.mailbox import wait_shielded
from actorgraph.runtime.stepper import Stepper, stepper_here
from actorgraph.runtime.task.futures import TaskFuture
from actorgraph.runtime.task.scope import CURRENT
from tests.support import blocking_quiet

T = TypeVar("T")
AGAIN_S = 0.5
END = object()

PATIENCE_S = 30.0
"""Seconds after which a blocking call is given up."""

RUNS = {
    "ainvoke": "invoke",
    "abatch": "batch",
    "aresume": "resume",
    "aresume_from": "resume_from",
    "aretry": "retry",
}
READS = {
    "aget_state": "get_state",
    "aupdate_state": "update_state",
    "abulk_update_state": "bulk_update_state",
    "afork_state": "fork_state",
    "aclear_cache": "clear_cache",
}
ITERATORS = {"astream": "stream", "aget_state_history": "get_state_history"}

_LIBRARY = str(Path(actorgraph.__file__).parent)

WAITING = frozenset(
    (
        *("anyio", "asyncio", "trio", "wait", "set", "sleep", "checkpoint"),
        *("aget", "aput", "asearch", "asend"),
    )
)
"""Names in the code of async functions that need the test's event loop."""


class NotApplicableError(BaseException):
    """Raised for a graph that no blocking call can run in its own thread; says why."""


class InterruptedFunctionError(KeyboardInterrupt):
    """Raised in a function that waits when its call is cancelled, as by Ctrl-C."""


class BlockingCall:
    """One blocking call of a test, or a stream with all its `next()`.

    Attributes:
        home: the test's event loop.
        stepper: the outermost one of its thread; None if an event loop ran it.
        functions: its functions that run in the test's loop now.
        is_interrupted: whether it was cancelled, or has ended: functions are interrupted.
    """

    def __init__(self) -> None:
        self.home = asyncio.get_running_loop()
        self.stepper: Stepper[Any] | None = None
        self.functions: set[asyncio.Task[Any]] = set()
        self.is_interrupted = False
        self._context = copy_context()
        self._context.run(CALL.set, self)

    async def do(self, function: Callable[[], T]) -> T:
        """Call a function in a new thread, and wait for its end."""
        ended = asyncio.Event()
        outcome: list[tuple[Any, BaseException | None]] = []

        def end(value: Any, error: BaseException | None) -> None:
            outcome.append((value, error))
            with suppress(RuntimeError):  # the test has ended
                self.home.call_soon_threadsafe(ended.set)

        def work() -> None:
            try:
                with blocking_quiet.working(self):
                    value = self._context.run(function)
            except BaseException as error:  # noqa: BLE001 - raised in the test
                end(None, error)
            else:
                end(value, None)

        def give_up() -> None:
            end(None, TimeoutError(f"a blocking call has not ended within {PATIENCE_S} s"))
            self.cancel()

        limit = threading.Timer(PATIENCE_S, give_up)
        limit.start()
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        try:
            await ended.wait()
        except asyncio.CancelledError:
            await wait_shielded(partial(self._end, ended))
            raise
        finally:
            limit.cancel()
        value, error = outcome[0]
        with anyio.move_on_after(AGAIN_S):
            while thread.is_alive():  # noqa: ASYNC110 - given up, it does its last things
                await asyncio.sleep(0)
        outcome.clear()
        try:
            if error is not None:
                raise error
            return value
        finally:
            del error

    async def _end(self, ended: asyncio.Event) -> None:
        while not ended.is_set():  # a cancellation that comes before the stepper is lost
            self.cancel()
            with anyio.move_on_after(AGAIN_S):
                await ended.wait()

    def cancel(self) -> None:
        """Do what Ctrl-C does: in the functions that wait, and elsewhere."""
        self._interrupt_functions()
        if self.stepper is not None:
            self.stepper.cancel()

    def _interrupt_functions(self) -> None:
        self.is_interrupted = True
        for task in tuple(self.functions):
            with suppress(RuntimeError):  # the test has ended
                self.home.call_soon_threadsafe(task.cancel)

    async def end(self) -> None:
        """End the functions that the call has abandoned in their threads."""
        self._interrupt_functions()
        while self.functions:
            await wait_shielded(partial(asyncio.wait, tuple(self.functions)))


CALL: ContextVar[BlockingCall | None] = ContextVar("blocking_call", default=None)
WAITS: ContextVar["WaitingFunction | None"] = ContextVar("waiting_function", default=None)
COUNTS: Counter[str] = Counter()
"""Of the running test: "runs", and "caller", those of them that a stepper ran."""


class WaitingFunction:
    """A plain function whose coroutine waits in the test's event loop."""

    def __init__(self) -> None:
        self._asked: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()

    def run(self, call: BlockingCall, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run the coroutine to its end; meanwhile call here what it asks for."""

        async def work() -> T:
            WAITS.set(self)
            task = cast("asyncio.Task[Any]", asyncio.current_task())
            call.functions.add(task)
            try:
                return await coroutine
            finally:
                call.functions.discard(task)
                self._ask(None)

        future = asyncio.run_coroutine_threadsafe(_outcome(work()), call.home)
        while (asked := self._next()) is not None:
            asked()
        value, error = future.result()
        if isinstance(error, asyncio.CancelledError) and call.is_interrupted:
            raise InterruptedFunctionError
        if error is not None:
            raise error
        return cast("T", value)

    def _ask(self, asked: Callable[[], None] | None) -> None:
        blocking_quiet.woken(self)
        self._asked.put(asked)

    def _next(self) -> Callable[[], None] | None:
        with suppress(queue.Empty):
            return self._asked.get_nowait()
        with blocking_quiet.waiting(self):
            return self._asked.get()

    async def call(self, function: Callable[[], T]) -> T:
        """Call a function in the thread that waits; awaited in the test's event loop."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()
        context = copy_context()
        context.run(WAITS.set, None)

        def asked() -> None:
            try:
                outcome = context.run(function), None
            except BaseException as error:  # noqa: BLE001 - raised where it is awaited
                outcome = None, error
            loop.call_soon_threadsafe(lambda: done.done() or done.set_result(outcome))

        self._ask(asked)
        value, error = await done
        if error is not None:
            raise error
        return value


async def _outcome(work: Coroutine[Any, Any, T]) -> tuple[T | None, BaseException | None]:
    try:
        return await work, None
    except BaseException as error:  # noqa: BLE001 - raised in the function's thread
        return None, error


# --- the test's side ---


def _is_outside() -> bool:
    """Whether this code is a test's, or a function's of a graph, and not the library's."""
    loop, stepper = _get_running_loop(), stepper_here()
    if portal.is_here() or (loop is None and stepper is not None and not stepper.in_function):
        return False
    return loop is None or WAITS.get() is not None or CURRENT.get(None) is None


async def _blocking(function: Callable[[], T], call: BlockingCall | None = None) -> T:
    """Call a blocking function: here, in the thread that waits for this, or in a new one."""
    if on_trio():  # a loop that the test itself runs
        return await anyio.to_thread.run_sync(function, abandon_on_cancel=True)
    if _get_running_loop() is None:
        return function()
    waits = WAITS.get()
    if waits is not None:
        return await waits.call(function)
    if call is not None:
        return await call.do(function)
    call = BlockingCall()
    try:
        return await call.do(function)
    finally:
        await call.end()


def _awaited(name: str, twin: str) -> Callable[..., Any]:
    original = getattr(CompiledStateGraph, name)

    @functools.wraps(original)
    async def method(self: Any, *args: Any, **options: Any) -> Any:
        if not _is_outside():
            return await original(self, *args, **options)
        return await _blocking(
            lambda: _counted(name, lambda: getattr(self, twin)(*args, **options))
        )

    return method


def _counted(name: str, function: Callable[[], T]) -> T:
    call = CALL.get()
    is_first = name in {*RUNS, *ITERATORS} - {"aget_state_history"}
    if call is not None and is_first and CURRENT.get(None) is None:
        COUNTS["runs"] += 1
        try:
            return function()
        finally:
            COUNTS["caller"] += call.stepper is not None
    return function()


class BlockingIterator(AsyncIterator[Any]):
    """A blocking iterator, such as a stream, that is read with `async for`."""

    def __init__(self, name: str, begin: Callable[[], Iterator[Any]]) -> None:
        self._name = name
        self._begin = begin
        self._items: Iterator[Any] | None = None
        self._call: BlockingCall | None = None

    async def __anext__(self) -> Any:
        try:
            item = await self._do(self._next)
        except asyncio.CancelledError:
            await self.aclose()
            raise
        if item is END:
            await self.aclose()
            raise StopAsyncIteration
        return item

    def _next(self) -> Any:
        if self._items is None:
            self._items = self._begin()
            return _counted(self._name, self._next)
        try:
            return next(self._items, END)
        except StopAsyncIteration as error:
            msg = "a node raised StopAsyncIteration"
            raise RuntimeError(msg) from error

    async def aclose(self) -> None:
        """End it, and wait for that."""
        self._begin = lambda: iter(())
        close = getattr(self._items, "close", None)
        if close is not None:
            await self._do(close)
        if self._call is not None:
            await self._call.end()

    async def _do(self, function: Callable[[], T]) -> T:
        if self._call is None and _get_running_loop() is not None and WAITS.get() is None:
            self._call = BlockingCall()
        return await _blocking(function, self._call)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _is_called_by_library() -> bool:
    """Whether the library has called the method which calls this: `stream`, `astream_events`."""
    frame = inspect.currentframe()
    above = frame and frame.f_back and frame.f_back.f_back
    return above is not None and above.f_code.co_filename.startswith(_LIBRARY)


def _iterated(name: str, twin: str) -> Callable[..., Any]:
    original = getattr(CompiledStateGraph, name)

    @functools.wraps(original)
    def method(self: Any, *args: Any, **options: Any) -> Any:
        if not _is_outside() or _is_called_by_library():
            return original(self, *args, **options)
        if CURRENT.get(None) is None:
            original(self, *args, **options)  # refuses bad arguments at the call
        return BlockingIterator(name, lambda: getattr(self, twin)(*args, **options))

    return method


def _future_awaited(original: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: TaskFuture[T]) -> Generator[Any, Any, T]:
        if not _is_outside():
            return (yield from original(self))
        try:
            return (yield from _blocking(self.result).__await__())
        except asyncio.CancelledError:
            self.cancel()
            raise

    return method


# --- the graph's side ---


def plain(function: Callable[..., Any], source: Any = None) -> Callable[..., Any]:
    """A plain function that runs an async one to its end; a plain one as it is.

    Args:
        source: the function whose code is read; default the same.
    """
    if not callables.is_async(function) or _is_library(function):
        return function
    if inspect.ismethod(function) and function.__name__ == "ainvoke":
        return function.__self__.invoke  # of a model, or of another library's graph
    waits = needs_loop(function if source is None else source)

    @functools.wraps(function)
    def called(*args: Any, **options: Any) -> Any:
        coroutine, call = function(*args, **options), CALL.get()
        if not waits:
            return _stepped(coroutine)
        return _in_a_loop(coroutine) if call is None else WaitingFunction().run(call, coroutine)

    return called


def _in_a_loop(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in the loop that has called this thread; in a new one if none has."""

    async def work() -> T:
        return await coroutine

    try:
        return anyio.from_thread.run(work)
    except anyio.NoEventLoopError:  # a call that the test itself has made in a thread
        return asyncio.run(work())


def _is_library(function: Any) -> bool:
    """Whether it is a graph's method, or another object of the library's."""
    owner = getattr(function, "__self__", None if inspect.isroutine(function) else function)
    return owner is not None and type(owner).__module__.startswith("actorgraph.")


def _stepped(coroutine: Coroutine[Any, Any, T]) -> T:
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    finally:
        coroutine.close()
    msg = "an async function waits for something that WAITING doesn't name"
    raise AssertionError(msg)


def needs_loop(function: Any, seen: set[int] | None = None) -> bool:
    """Whether an async function, or one that it mentions, mentions what needs an event loop."""
    seen = set() if seen is None else seen
    found = _unwrapped(function)
    if found is None or id(found) in seen:
        return False
    seen.add(id(found))
    names = {*_names(found.__code__)}
    if names & WAITING:
        return True
    cells = [cell.cell_contents for cell in found.__closure__ or () if _is_filled(cell)]
    known = [found.__globals__[name] for name in names if name in found.__globals__]
    if any(hasattr(each, "ainvoke") and not _is_graph(each) for each in (*cells, *known)):
        return True  # a model
    owner = getattr(function, "__self__", function)
    held = [*vars(owner).values()] if hasattr(owner, "__dict__") else []
    inside = [each for each in (*cells, *known, *held) if _may_be_awaited(each)]
    return any(needs_loop(each, seen) for each in inside)


def _is_graph(found: object) -> bool:
    return isinstance(found, GraphSettings | type)


def _unwrapped(function: Any) -> FunctionType | None:
    while isinstance(function, functools.partial):
        function = function.func
    if not inspect.isroutine(function):
        function = getattr(type(function), "__call__", None)  # noqa: B004
    if isinstance(function, MethodType):
        function = function.__func__
    return function if isinstance(function, FunctionType) else None


def _may_be_awaited(found: Any) -> bool:
    """Whether it is a function of the test's: the library's, and graphs, are called as they are."""
    function = _unwrapped(found) if callable(found) else None
    return function is not None and not function.__module__.startswith("actorgraph.")


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def plain_node(node: NodePlan) -> NodePlan:
    """A node whose function and routers are plain."""
    if node.timeout is not None:
        raise NotApplicableError("timeouts of a node: only of async ones")
    branches = tuple(replace(b, path=plain(b.path), is_async=False) for b in node.branches)
    if _is_library(node.call):
        return replace(node, branches=branches)
    return replace(node, call=plain(node.call), is_async=False, branches=branches)


def plain_plan(plan: Plan) -> Plan:
    """A graph whose functions are plain."""
    tables: dict[str, Any] = {
        "nodes": {name: plain_node(node) for name, node in plan.nodes.items()},
        "handlers": {name: plain_node(node) for name, node in plan.handlers.items()},
    }
    return replace(plan, **tables)


def _compiled(original: Callable[..., None]) -> Callable[..., None]:
    def method(self: Any, plan: Plan, *args: Any, **options: Any) -> None:
        original(self, plain_plan(plan), *args, **options)

    return functools.wraps(original)(method)


def _refused(*_: object, **__: object) -> None:
    raise NotApplicableError("timeouts of a @task: only of async ones")


def _task_made(original: Callable[..., None]) -> Callable[..., None]:
    def method(self: Any, function: Any, *args: Any, **options: Any) -> None:
        original(self, function, *args, **options)
        if self.node.is_async:
            # Raised by a call, not here: a test's module may define such a task.
            timed = self.node.timeout is not None
            call = _refused if timed else plain(self.node.call, function)
            self.node = replace(self.node, call=call, timeout=None, is_async=False)

    return functools.wraps(original)(method)


def _noted(original: Callable[..., None]) -> Callable[..., None]:
    def init(self: Stepper[Any], coroutine: Any) -> None:
        original(self, coroutine)
        call = CALL.get()
        if call is not None and call.stepper is None:
            call.stepper = self

    return init


@contextmanager
def installed() -> Generator[None]:
    """Run what is tested inside under the blocking driver; see the module's docstring."""
    with pytest.MonkeyPatch.context() as patch:
        for name, twin in (RUNS | READS).items():
            patch.setattr(CompiledStateGraph, name, _awaited(name, twin))
        for name, twin in ITERATORS.items():
            patch.setattr(CompiledStateGraph, name, _iterated(name, twin))
        patch.setattr(GraphSettings, "__init__", _compiled(GraphSettings.__init__))
        patch.setattr(TaskFunction, "__init__", _task_made(TaskFunction.__init__))
        patch.setattr(TaskFuture, "__await__", _future_awaited(TaskFuture.__await__))
        patch.setattr(Stepper, "__init__", _noted(Stepper.__init__))
        blocking_quiet.install(patch)
        yield
