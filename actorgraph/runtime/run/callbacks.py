"""Handlers of pauses and resumes of runs: `GraphCallbackHandler` in `config["callbacks"]`.

They are listed among LangChain's handlers, to which they look like handlers that ignore all
events. An error that one raises is logged and changes nothing for the run.
"""

import inspect
from collections.abc import Sequence
from typing import Any, Literal
from uuid import UUID

import msgspec

from actorgraph.errors.texts import error_repr
from actorgraph.runtime.log import event as log_event
from actorgraph.runtime.stepper import here_or_in_portal
from actorgraph.superstep.run_state import RunState
from actorgraph.values.commands import Interrupt
from actorgraph.values.ids import as_text
from actorgraph.values.run import Interrupted, RunOutcome
from actorgraph.values.stream_items import namespace_of

GraphLifecycleStatus = Literal["pending", "interrupt_before", "interrupt_after"]


class GraphInterruptEvent(msgspec.Struct, frozen=True):
    """A run has paused and stored its state.

    Attributes:
        run_id: of this call.
        status: "pending" if it has open questions; else the kind of breakpoint it has reached.
        checkpoint_id: the checkpoint from which it resumes.
        checkpoint_ns: the namespace, one part per level; empty for a root run.
        interrupts: its open questions.
    """

    run_id: UUID | None
    status: GraphLifecycleStatus
    checkpoint_id: str
    checkpoint_ns: tuple[str, ...]
    interrupts: tuple[Interrupt, ...]


class GraphResumeEvent(msgspec.Struct, frozen=True):
    """A run resumes from a checkpoint; the fields are those of `GraphInterruptEvent`."""

    run_id: UUID | None
    status: GraphLifecycleStatus
    checkpoint_id: str
    checkpoint_ns: tuple[str, ...]


GraphLifecycleEvent = GraphInterruptEvent | GraphResumeEvent


class GraphCallbackHandler:
    """Base of handlers: override a method, sync or async, and pass it in `config["callbacks"]`.

    To handle LangChain's callbacks too, inherit from `BaseCallbackHandler` first and this second.
    """

    raise_error = False
    run_inline = True
    ignore_llm = ignore_retry = ignore_chain = ignore_agent = ignore_retriever = True
    ignore_chat_model = ignore_custom_event = True

    def on_interrupt(self, event: GraphInterruptEvent) -> Any:
        """Called when a root run has paused: for questions, also of subgraphs, or a breakpoint."""

    def on_resume(self, event: GraphResumeEvent) -> Any:
        """Called when a run, root or nested, resumes from a checkpoint."""

    def on_text(self, *_: Any, **__: Any) -> None:
        """LangChain's; does nothing. The only callback that no `ignore_` attribute turns off."""


class Lifecycle:
    """The handlers of one run."""

    def __init__(
        self, handlers: Sequence[GraphCallbackHandler], state: RunState, run: bytes
    ) -> None:
        self._handlers = handlers
        self._state = state
        self._run = UUID(bytes=bytes(run))

    async def notify_resumed(self, loaded: bytes) -> None:
        """Call `on_resume`, if the run resumes from the checkpoint that it has loaded."""
        state = self._state
        # A new input, which resumes nothing, has made a checkpoint of its own by now.
        if state.source != "fork" and state.checkpoint != loaded:
            return
        where = as_text(state.checkpoint), namespace_of(state.namespace)
        await self._notify("on_resume", GraphResumeEvent(self._run, "pending", *where))

    async def notify_left(self, outcome: RunOutcome) -> None:
        """Call `on_interrupt`, if the run is a root run that has paused."""
        state = self._state
        if not isinstance(outcome, Interrupted) or state.nested is not None:
            return
        status: GraphLifecycleStatus = "pending" if outcome.interrupts else state.pause
        where = as_text(state.checkpoint), namespace_of(state.namespace)
        event = GraphInterruptEvent(self._run, status, *where, outcome.interrupts)
        await self._notify("on_interrupt", event)

    async def _notify(self, name: str, event: GraphLifecycleEvent) -> None:
        for handler in self._handlers:
            try:
                returned = getattr(handler, name)(event)
                if inspect.isawaitable(returned):
                    await here_or_in_portal(_awaited, returned)
            except Exception as error:  # noqa: BLE001 - a handler changes nothing for the run
                ids = {"thread_id": self._state.thread_id, "run_id": str(self._run)}
                log_event(
                    "warning", "callback.failed", **ids, callback=name, error=error_repr(error)
                )


async def _awaited(returned: Any) -> None:
    await returned


def lifecycle_of(callbacks: Any, state: RunState, run: bytes) -> Lifecycle | None:
    """The handlers in a config's `callbacks`, a list or a LangChain manager; None without any."""
    if not callbacks:
        return None
    listed: Any = getattr(callbacks, "handlers", callbacks)
    handlers = [h for h in listed if isinstance(h, GraphCallbackHandler)]
    return Lifecycle(handlers, state, run) if handlers else None
