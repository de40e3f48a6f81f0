"""The callbacks of LangChain that a run causes: it is a chain, with its nodes below it.

Receives   the run's launch, each attempt of a task, the outcome
Sends      `on_chain_start` and `on_chain_end` or `on_chain_error` to the handlers of the call, of
           the program (`collect_runs()`, ...) and of LangSmith
Order      a task is reported within its run, its models and tools within the task
Context    the run's copy of its caller's, of which the nodes' are copies
Ends       with the run: a run that has paused has ended, except that a nested one has failed with
           its interrupt, as its node has

On trio and in a blocking call handlers are called in the run's thread, by a manager without async
methods; otherwise as in LangGraph, where an async handler is awaited on the event loop.
Imported only by programs that have imported LangChain (docs/decisions/0089).
"""

from asyncio import CancelledError
from collections.abc import Callable, Mapping, Sequence
from contextvars import Context
from functools import partial
from typing import Any
from uuid import UUID

import anyio
import msgspec
from langchain_core.callbacks.manager import (
    AsyncCallbackManager,
    AsyncCallbackManagerForChainRun,
    CallbackManager,
)

from actorgraph.bridges.task_callbacks import Manager, NodeCallbacks, reported
from actorgraph.errors import GraphInterrupt
from actorgraph.loops import on_trio
from actorgraph.runtime import portal
from actorgraph.runtime.run.blocking_supervisor import BlockingSupervisor
from actorgraph.runtime.run.launch import Launch
from actorgraph.runtime.run.supervisor import Supervisor
from actorgraph.runtime.stepper import steps_here
from actorgraph.runtime.task.calling import InContext, thread_limiter
from actorgraph.runtime.task.hops import hop
from actorgraph.runtime.task.scope import Inherit, TaskScope
from actorgraph.runtime.task.task_places import outermost
from actorgraph.superstep.handover import raised
from actorgraph.superstep.run_state import RunState
from actorgraph.values.configs import LIBRARY_KEY, names_a_secret, placed_metadata
from actorgraph.values.constants import CALL
from actorgraph.values.run import (
    Cancelled,
    Effect,
    Escaped,
    Failed,
    Interrupted,
    RunOutcome,
    Succeeded,
)


async def begin(launch: Launch) -> "GraphCallbacks | None":
    """Report that a run begins; None if nothing listens."""
    config = launch.config
    callbacks = config.get("callbacks")
    # Handlers of the whole program listen to the run above a nested one already.
    if not callbacks and (launch.place is not None or not CallbackManager.configure().handlers):
        return None
    waits = not (on_trio() or steps_here())
    manager = _configured(launch, waits=waits and not portal.is_here())
    if not manager.handlers:
        return None
    # The id of a nested run is that of its root run, which is reported under it already.
    own = UUID(bytes=bytes(launch.run)) if launch.place is None else None
    run = await _told(
        launch,
        manager.on_chain_start,
        None,
        launch.given,
        name=config.get("run_name") or launch.template.plan.name,
        run_id=config.get("run_id") or own,
    )
    return GraphCallbacks(launch, _awaited(run) if waits else run, waits=waits)


async def _told(launch: Launch, call: Callable[..., Any], *args: Any, **more: Any) -> Any:
    """Call a method of a manager in the run's context.

    Nodes see the context variables that a handler sets, and a handler can reset at the end what it
    set at the beginning. The blocking calls that share the background loop may not wait for each
    other's handlers: these are called in a worker thread.
    """
    if portal.is_here():
        work = partial(call, *args, **more)
        return await hop(partial(launch.context.run, work), thread_limiter())
    return await InContext(launch.context, reported(call, *args, **more))


def _awaited(run: Manager) -> Manager:
    """Return the manager of a run with async methods."""
    if isinstance(run, AsyncCallbackManagerForChainRun):
        return run
    return AsyncCallbackManagerForChainRun(
        run_id=run.run_id,
        handlers=run.handlers,
        inheritable_handlers=run.inheritable_handlers,
        parent_run_id=run.parent_run_id,
        tags=run.tags,
        inheritable_tags=run.inheritable_tags,
        metadata=run.metadata,
        inheritable_metadata=run.inheritable_metadata,
    )


def _configured(launch: Launch, *, waits: bool) -> Manager:
    config, metadata = launch.config, placed_metadata(launch.config)
    if launch.place is not None:
        metadata["checkpoint_ns"] = outermost(launch.place.scope)
    metadata |= {LIBRARY_KEY: "langgraph", **(config.get("metadata") or {})}
    return _manager(waits)(
        inheritable_callbacks=config.get("callbacks"),
        inheritable_tags=list(config.get("tags") or ()),
        inheritable_metadata=metadata,
        langsmith_inheritable_metadata=_of_langsmith(config.get("configurable") or {}),
    )


def _of_langsmith(place: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the scalars of `configurable` that only LangSmith's tracer receives."""
    return {
        key: value
        for key, value in place.items()
        if isinstance(value, (str, int, float, bool))
        and not (key.startswith("__") or names_a_secret(key))
    } or None


def _manager(waits: bool) -> Callable[..., Manager]:
    return AsyncCallbackManager.configure if waits else CallbackManager.configure


class _Reporting(Supervisor):
    """Supervises a run that is reported. Its end is reported when its thread is free again."""

    _callbacks: "GraphCallbacks"

    def report(self, callbacks: "GraphCallbacks") -> None:
        """Report the run's tasks and its end; call it before the run begins."""
        self._callbacks = callbacks
        self._environment.inherit = callbacks.inherited(self._environment.inherit)

    async def run(self, effects: Sequence[Effect]) -> RunOutcome:
        """See `Supervisor.run`."""
        try:
            outcome = await super().run(effects)
        except GeneratorExit:  # the event loop was closed: nothing can be awaited any more
            raise
        except BaseException as error:
            await self._callbacks.end(error)
            raise
        await self._callbacks.end(outcome)
        return outcome

    async def withdraw(self) -> None:
        """See `Supervisor.withdraw`."""
        await super().withdraw()
        await self._callbacks.end(Cancelled())


class ReportedSupervisor(_Reporting):
    """In an event loop."""


class ReportedBlockingSupervisor(_Reporting, BlockingSupervisor):
    """In a blocking call's thread."""


class GraphCallbacks:
    """Reports one run.

    Attributes:
        launch: the run's.
    """

    def __init__(self, launch: Launch, run: Manager, *, waits: bool) -> None:
        self.launch = msgspec.structs.replace(launch, callbacks=self)
        self._run = run
        self._waits = waits

    def supervisor(self, state: RunState, **parts: Any) -> _Reporting:
        """See `RunCallbacks.supervisor`."""
        make = ReportedBlockingSupervisor if steps_here() else ReportedSupervisor
        supervisor = make(state, **parts)
        supervisor.report(self)
        return supervisor

    def inherited(self, inherit: Inherit | None) -> Inherit:
        """Return a function that calls `inherit`, and has the task reported."""

        def both(scope: TaskScope, context: Context) -> None:
            # A `@task` call is reported below its caller, which is in the config already.
            if scope.task.path[-1] != CALL or scope.caller is None:
                above = self._run.get_child(f"graph:step:{scope.run_context.step()}")
            else:
                above = scope.caller.base_config.get("callbacks")
            scope.override({**scope.base_config, "callbacks": above})
            if inherit is not None:
                inherit(scope, context)
            scope.observer = NodeCallbacks(scope, self._configure, waits=self._waits)

        return both

    def _configure(self, callbacks: Any, tags: list[str], metadata: dict[str, Any]) -> Manager:
        return _manager(self._waits)(
            inheritable_callbacks=callbacks, inheritable_tags=tags, inheritable_metadata=metadata
        )

    @property
    def _whole(self) -> Manager:
        """The manager of the run itself, for `_told`."""
        return self._run.get_sync() if self._waits and portal.is_here() else self._run

    async def end(self, outcome: RunOutcome | BaseException) -> None:
        """Report the outcome of the run."""
        run = self._whole
        match outcome:
            case Succeeded(values):
                await self._report_output(values)
            case Interrupted(values, interrupts):
                if self.launch.place is None:
                    await self._report_output(values)
                else:
                    await _told(self.launch, run.on_chain_error, GraphInterrupt(interrupts))
            case Failed(error):
                await _told(self.launch, run.on_chain_error, error)
            case Escaped(handed):
                await _told(self.launch, run.on_chain_error, raised(handed))
            case Cancelled():
                await self._report_leaving(CancelledError())
            case _:
                await self._report_leaving(outcome)

    async def _report_output(self, values: Any) -> None:
        # A reader that drives the run has to see its last chunk before the run's end is reported.
        broadcast = self.launch.broadcast
        if broadcast is not None and broadcast.waits_for_reader:
            await broadcast.wait_wanted()
        await _told(self.launch, self._whole.on_chain_end, values)

    async def _report_leaving(self, error: BaseException) -> None:
        if not self._waits:
            self.launch.context.run(self._run.on_chain_error, error)
            return
        with anyio.CancelScope(shield=True):
            await _told(self.launch, self._whole.on_chain_error, error)
