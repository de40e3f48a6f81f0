"""The callbacks of LangChain that a task causes: graph -> node -> router, model, tool.

A node is reported as a chain, as LangGraph does: named after the node, tagged `graph:step:N`, with
the task's place as metadata. Calls of its function are reported below it, tagged `seq:step:1`;
its routers follow, from `seq:step:3`. Imported only by programs that have imported LangChain, and
used only if something listens.

An error of a handler is logged by LangChain, unless the handler sets `raise_error`.
"""

import inspect
from collections.abc import Callable, Coroutine, Iterator, Mapping
from copy import copy
from dataclasses import replace
from typing import Any, TypeVar, cast

import anyio
from langchain_core.runnables import Runnable
from langchain_core.runnables.config import (
    RunnableConfig,
    _set_config_context,  # pyright: ignore[reportPrivateUsage] - kept for frameworks, it says
    var_child_runnable_config,
)
from langchain_core.tracers._streaming import _StreamingCallbackHandler
from langchain_core.tracers.base import BaseTracer
from langchain_core.tracers.langchain import LangChainTracer

from actorgraph.bridges.event_stream_messages import MessagePieces
from actorgraph.errors.signatures import signature_of
from actorgraph.loops import in_event_loop
from actorgraph.plan.plan import BranchPlan, NodePlan
from actorgraph.runtime.task.calling import wait_for
from actorgraph.runtime.task.messages import metadata_of
from actorgraph.runtime.task.scope import TaskScope
from actorgraph.values.constants import CALL, START, TAG_HIDDEN

T = TypeVar("T")

Manager = Any
"""A callback manager of LangChain's; methods of an async one have to be awaited."""


async def reported(call: Callable[..., Any], *args: Any, **more: Any) -> Any:
    """Call a method of a callback manager, async or not."""
    answer = call(*args, **more)
    return await answer if inspect.isawaitable(answer) else answer


class NodeCallbacks:
    """Reports one attempt of a task.

    Args:
        scope: of the attempt; its config has a manager below which the task is reported.
        configure: makes a manager from a config's callbacks, tags and metadata.
        waits: whether methods of managers have to be awaited.
    """

    returned: Any = None
    entered = False
    _run: Manager = None
    _pieces: MessagePieces | None = None

    def __init__(self, scope: TaskScope, configure: Callable[..., Manager], *, waits: bool) -> None:
        self._scope = scope
        self._configure = configure
        self._waits = waits
        self._first_router = 3

    async def around(self, node: NodePlan, given: Any, call: Coroutine[Any, Any, T]) -> T:
        """See `CallObserver.around`."""
        try:
            run = self._run = await self._begin(node, given)
        except BaseException:
            call.close()
            raise
        try:
            made = await call
        except Exception as error:
            await reported(run.on_chain_error, error)
            raise
        except BaseException as error:
            await self._report_leaving(error)
            raise
        if self._pieces is not None:
            self._pieces.close()
        for handler in _listeners(run):
            for _ in handler.tap_output_iter(run.run_id, iter((self.returned,))):
                pass
        await self._report_end(node)
        return made

    async def _begin(self, node: NodePlan, given: Any) -> Manager:
        scope = self._scope
        name, tags = node.name, [*node.metadata.get("tags", ())]
        if name == START:
            tags, self._first_router = [*tags, TAG_HIDDEN], 2
        config = scope.config
        manager = self._configure(
            config.get("callbacks"),
            [*(config.get("tags") or ()), *tags],
            metadata_of(scope, node, scope.run_context.step()),
        )
        if scope.task.path[-1] == CALL:
            given = _arguments(node, given)
        run = await self._report_start(node, manager, name, given)
        child = run.get_child("seq:step:1")
        scope.override({**scope.base_config, "callbacks": child})
        enter(cast("RunnableConfig", scope.config), run)
        return run

    async def _report_start(
        self, node: NodePlan, manager: Manager, name: str, given: Any
    ) -> Manager:
        shown = given if node.trace is None else node.trace.recorded_input(given)
        if shown is given:
            return await reported(manager.on_chain_start, None, given, name=name)
        handlers, tracers = _split(manager)
        run = await reported(handlers.on_chain_start, None, given, name=name)
        # Tracers get the recorded value, under the same id.
        await reported(tracers.on_chain_start, None, shown, name=name, run_id=run.run_id)
        run.handlers = manager.handlers
        return run

    async def _report_end(self, node: NodePlan) -> None:
        run, made = self._run, self.returned
        shown = made if node.trace is None else node.trace.recorded_output(made)
        if shown is made:
            await reported(run.on_chain_end, made)
            return
        handlers, tracers = _split(run)
        await reported(tracers.on_chain_end, shown)
        await reported(handlers.on_chain_end, made)

    async def _report_leaving(self, error: BaseException) -> None:
        """Report an interrupt or a cancellation, which must not stop the report itself."""
        if not self._waits:
            self._run.on_chain_error(error)
            return
        with anyio.CancelScope(shield=True):
            await self._run.on_chain_error(error)

    def offer(self, message: Any, metadata: Mapping[str, Any]) -> None:
        """See `CallObserver.offer`."""
        if self._run is None:
            return
        if self._pieces is None:
            run = self._run
            self._pieces = MessagePieces(run.handlers, run.run_id, run.metadata)
        self._pieces.offer(message, metadata)

    def observed(self, branch: BranchPlan, place: int) -> BranchPlan:
        """See `CallObserver.observed`. The routers of a cached result have no node to be below.

        A RunnableCallable made with `trace=False`, as the routers of LangChain's agents, isn't
        reported.
        """
        owner = getattr(branch.path, "__self__", None)
        if self._run is None or getattr(owner, "trace", True) is False:
            return branch
        tag = f"seq:step:{self._first_router + place}"
        if isinstance(owner, Runnable):
            return replace(branch, path=_runnable(self._run, tag, branch, waits=self._waits))
        call = _async_router if branch.is_async else _router
        return replace(branch, path=call(self._run, tag, branch, waits=self._waits))


def _runnable(run: Manager, tag: str, branch: BranchPlan, *, waits: bool) -> Callable[..., Any]:
    """Return a router that is a Runnable: it reports itself, below the node."""

    def path(seen: Any, **extra: Any) -> Any:
        own = run.get_sync() if waits and not branch.is_async else run
        given = extra.pop("config", None) or var_child_runnable_config.get() or {}
        return branch.path(seen, config={**given, "callbacks": _child(own, tag)}, **extra)

    return path


def _router(run: Manager, tag: str, branch: BranchPlan, *, waits: bool) -> Callable[..., Any]:
    """Return a plain router that reports its calls."""

    def path(seen: Any, **extra: Any) -> Any:
        # On the event loop nothing can be awaited; only declared routers are called there.
        own = run.get_sync() if waits and in_event_loop() else run
        manager = _child(own, tag)
        router = _done(manager.on_chain_start(None, seen, name=_name_of(branch)))
        token = _enter_router(router)
        try:
            answer = branch.path(seen, **extra)
        except BaseException as error:
            _done(router.on_chain_error(error))
            raise
        finally:
            var_child_runnable_config.reset(token)
        _done(router.on_chain_end(answer))
        return answer

    return path


def _async_router(run: Manager, tag: str, branch: BranchPlan, *, waits: bool) -> Callable[..., Any]:
    """Return an async router that reports its calls."""

    async def path(seen: Any, **extra: Any) -> Any:
        manager = _child(run, tag)
        router = await reported(manager.on_chain_start, None, seen, name=_name_of(branch))
        token = _enter_router(router)
        try:
            answer = await branch.path(seen, **extra)
        except BaseException as error:
            with anyio.CancelScope(shield=waits):
                await reported(router.on_chain_error, error)
            raise
        finally:
            var_child_runnable_config.reset(token)
        await reported(router.on_chain_end, answer)
        return answer

    return path


def _child(run: Manager, tag: str) -> Manager:
    """Return a manager for callbacks below a node; its tag comes before the inherited ones."""
    manager = run.get_child(tag)
    manager.add_tags(list(manager.inheritable_tags))
    return manager


def _done(answer: Any) -> Any:
    """Wait, in a worker thread, for the awaitable that a manager's method has returned."""
    return wait_for(answer) if inspect.isawaitable(answer) else answer


def _enter_router(run: Manager) -> Any:
    config = {**(var_child_runnable_config.get() or {}), "callbacks": run.get_child()}
    return var_child_runnable_config.set(cast("RunnableConfig", config))


def _name_of(branch: BranchPlan) -> str:
    """Return a router's name; LangGraph's name for one without."""
    return "RunnableCallable" if branch.name == "<lambda>" else branch.name


def enter(config: RunnableConfig, run: Manager) -> None:
    """Let LangChain's calls in the running context inherit a config, and LangSmith's spans too."""
    if any(isinstance(handler, LangChainTracer) for handler in run.handlers):
        _set_config_context(config)
    else:
        var_child_runnable_config.set(config)


def _listeners(run: Manager) -> Iterator[Any]:
    """The handlers that receive streamed output too."""
    return (h for h in run.handlers if isinstance(h, _StreamingCallbackHandler))


def _split(manager: Manager) -> tuple[Manager, Manager]:
    """Return two managers: one without the tracers, and one with nothing else."""
    tracers = [h for h in manager.handlers if _is_tracer(h)]
    others = [h for h in manager.handlers if h not in tracers]
    return _with(manager, others), _with(manager, tracers)


def _is_tracer(handler: Any) -> bool:
    return isinstance(handler, BaseTracer) and not isinstance(handler, _StreamingCallbackHandler)


def _with(manager: Manager, handlers: list[Any]) -> Manager:
    twin = copy(manager)
    twin.handlers = handlers
    return twin


def _arguments(node: NodePlan, given: Any) -> Any:
    """Make parameter -> argument of a `@task` call."""
    args, kwargs = given
    try:
        bound = signature_of(node.call).bind_partial(*args, **kwargs)
    except (TypeError, ValueError):
        return {"args": args, **kwargs}
    bound.apply_defaults()
    return dict(bound.arguments)
