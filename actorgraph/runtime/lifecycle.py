"""Handlers that are told when a run pauses and when it goes on: `config["callbacks"]`.

They stand among LangChain's handlers, to which they look like a handler that ignores everything.
One that raises is logged and changes nothing.
"""

import inspect
from collections.abc import Sequence
from typing import Any, Literal
from uuid import UUID

import msgspec

from actorgraph.errors.telling import shown
from actorgraph.runtime.log import event as log_event
from actorgraph.superstep.state import RunState
from actorgraph.values.commands import Interrupt
from actorgraph.values.ids import as_text
from actorgraph.values.run import Interrupted, RunOutcome
from actorgraph.values.streams import namespace_of

GraphLifecycleStatus = Literal["pending", "interrupt_before", "interrupt_after"]


class GraphInterruptEvent(msgspec.Struct, frozen=True):
    """A run has paused and stored where it stands.

    Attributes:
        run_id: this call's.
        status: "pending" for questions; else which kind of breakpoint it has come to.
        checkpoint_id: where it goes on from.
        checkpoint_ns: the namespace, one part per level; empty for a root run.
        interrupts: the questions that wait.
    """

    run_id: UUID | None
    status: GraphLifecycleStatus
    checkpoint_id: str
    checkpoint_ns: tuple[str, ...]
    interrupts: tuple[Interrupt, ...]


class GraphResumeEvent(msgspec.Struct, frozen=True):
    """A run goes on from a checkpoint; the fields are those of `GraphInterruptEvent`."""

    run_id: UUID | None
    status: GraphLifecycleStatus
    checkpoint_id: str
    checkpoint_ns: tuple[str, ...]


GraphLifecycleEvent = GraphInterruptEvent | GraphResumeEvent


class GraphCallbackHandler:
    """Override what you want to hear, sync or async, and pass it in `config["callbacks"]`.

    To hear LangChain's callbacks too, inherit from `BaseCallbackHandler` first and this second.
    """

    raise_error = False
    run_inline = True
    ignore_llm = ignore_retry = ignore_chain = ignore_agent = ignore_retriever = True
    ignore_chat_model = ignore_custom_event = True

    def on_interrupt(self, event: GraphInterruptEvent) -> Any:
        """A root run has paused, for questions of its own or below it, or at a breakpoint."""

    def on_resume(self, event: GraphResumeEvent) -> Any:
        """A run, root or nested, goes on from a checkpoint."""

    def on_text(self, *_: Any, **__: Any) -> None:
        """LangChain's; the one that no `ignore_` holds back."""


class Lifecycle:
    """The handlers of one run."""

    def __init__(
        self, handlers: Sequence[GraphCallbackHandler], state: RunState, run: bytes
    ) -> None:
        self._handlers = handlers
        self._state = state
        self._run = UUID(bytes=bytes(run))

    async def begun(self, loaded: bytes) -> None:
        """The run has begun on a stored checkpoint; a new input makes one of its own."""
        state = self._state
        if state.source != "fork" and state.checkpoint != loaded:
            return
        where = as_text(state.checkpoint), namespace_of(state.namespace)
        await self._tell("on_resume", GraphResumeEvent(self._run, "pending", *where))

    async def left(self, outcome: RunOutcome) -> None:
        """The run has left; a root run that waits tells so."""
        state = self._state
        if not isinstance(outcome, Interrupted) or state.nested is not None:
            return
        status: GraphLifecycleStatus = "pending" if outcome.interrupts else state.pause
        where = as_text(state.checkpoint), namespace_of(state.namespace)
        event = GraphInterruptEvent(self._run, status, *where, outcome.interrupts)
        await self._tell("on_interrupt", event)

    async def _tell(self, name: str, event: GraphLifecycleEvent) -> None:
        for handler in self._handlers:
            try:
                told = getattr(handler, name)(event)
                if inspect.isawaitable(told):
                    await told
            except Exception as error:  # noqa: BLE001 - a listener changes nothing
                ids = {"thread_id": self._state.thread_id, "run_id": str(self._run)}
                log_event("warning", "callback.failed", **ids, callback=name, error=shown(error))


def lifecycle_of(callbacks: Any, state: RunState, run: bytes) -> Lifecycle | None:
    """The handlers in a config's `callbacks`, a list or a LangChain manager; None without any."""
    if not callbacks:
        return None
    listed: Any = getattr(callbacks, "handlers", callbacks)
    handlers = [h for h in listed if isinstance(h, GraphCallbackHandler)]
    return Lifecycle(handlers, state, run) if handlers else None
