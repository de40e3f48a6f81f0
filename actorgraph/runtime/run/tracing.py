"""OpenTelemetry spans of runs, supersteps and nodes. Extra: `otel`.

Receives   each attempt of a task as it begins, each event of a task, the run's end
Sends      spans to the program's tracer provider; node spans become current in the node's own
           context, so that spans opened by a node, its tasks and its threads are their children
Order      a superstep's span ends with its last task; a run's after the spans of all its tasks
Links      a run that resumes is linked to the one that made its checkpoint, whose `traceparent`
           is in the checkpoint's metadata (docs/decisions/0044)
Ends       with the run: no span is left open. An error of a sampler or a
           processor is logged, and changes nothing for the run

No span holds a value of the state, an input or a result. Runs of agents have OpenTelemetry's
`gen_ai.*` attributes; the model calls and tool calls in their nodes: `task/operation_spans.py`.
"""

import sys
import time
from collections.abc import Callable, Mapping
from contextvars import Context
from typing import Any, Protocol, TypeVar, cast

import msgspec
from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.trace import Span, SpanContext, Status, StatusCode
from opentelemetry.trace import TraceFlags as Flags

from actorgraph.bridging import BRIDGE
from actorgraph.errors import GraphDrained
from actorgraph.runtime.log import event as log_event
from actorgraph.runtime.run.launch import Launch
from actorgraph.runtime.run.node_actor import RunEnvironment
from actorgraph.runtime.task.operation_spans import record_error
from actorgraph.runtime.task.scope import Inherit, TaskScope
from actorgraph.superstep.nesting import TRACE_KEY
from actorgraph.values.checkpoint import Restored
from actorgraph.values.commands import Command
from actorgraph.values.constants import CALL
from actorgraph.values.ids import as_text
from actorgraph.values.run import (
    STATUS,
    Event,
    Failed,
    RunOutcome,
    TaskCancelled,
    TaskDrained,
    TaskEscaped,
    TaskFailed,
    TaskInterrupted,
    TaskSucceeded,
)

T = TypeVar("T")
Report = Callable[[Event], None]

_PREFIX = "actorgraph."


class OpenSpans(Protocol):
    """Spans of the models that one task calls."""

    def end(self, error: BaseException | None) -> None:
        """End those of calls that were cancelled.

        Args:
            error: the task's; None for status "cancelled".
        """
        ...


class RunTrace:
    """The spans of one run. Its methods are called in the thread of the run's supervisor.

    Attributes:
        launch: the run's launch, with the span in its context and in its checkpoints' metadata.
        base: returns the id of the run's newest checkpoint.
    """

    base: Callable[[], bytes] = bytes
    launch: Launch

    def __init__(self, tracer: trace.Tracer, span: Span, launch: Launch) -> None:
        self._tracer = tracer
        self._span = span
        self._ids: dict[str, Any] = span_ids(launch)
        self._inside = launch.context.run(contexts.get_current)
        self._nodes: dict[str, Span] = {}
        self._models: dict[str, OpenSpans] = {}
        self._superstep: Span | None = None
        self._step: int | None = None
        self._begun_on = b""
        self._last_ns = 0
        self._failed: BaseException | None = None
        metadata = {TRACE_KEY: address_of(span.get_span_context()), **launch.policy.metadata}
        policy = msgspec.structs.replace(launch.policy, metadata=metadata)
        self.launch = msgspec.structs.replace(launch, policy=policy, spans=self)

    def link_resumed(self, restored: Restored) -> None:
        """See `RunSpans.link_resumed`."""
        quietly(self._link, restored)

    def _link(self, restored: Restored) -> None:
        launch = self.launch
        if launch.place is not None or not (
            launch.given is None or isinstance(launch.given, Command)
        ):
            return
        before = span_at(restored.metadata)
        if before is not None:
            kind = {_PREFIX + "link": "resumes", _PREFIX + "checkpoint_id": as_text(restored.id)}
            self._span.add_link(before, kind)

    def watch(self, environment: RunEnvironment, base: Callable[[], bytes]) -> None:
        """See `RunSpans.watch`."""
        self.base = base
        environment.inherit = self._inherit(environment.inherit)
        environment.report = self._reporting(environment.report)

    def _inherit(self, inherit: Inherit | None) -> Inherit:
        """A function that calls `inherit` and begins the node's span in an attempt's context."""

        def both(scope: TaskScope, context: Context) -> None:
            if inherit is not None:
                inherit(scope, context)
            quietly(self._begin_task, scope, context)
            if BRIDGE.calls_module in sys.modules:
                self._end_models(scope.task.id, None)  # of an attempt before this one
                models = quietly(BRIDGE.trace_models, scope, context)
                if models is not None:
                    self._models[scope.task.id] = models

        return both

    def _reporting(self, report: Report) -> Report:
        """A function that ends the span of a task that ends, and then reports the event."""

        def reports(event: Event) -> None:
            quietly(self._end_task, event)
            report(event)

        return reports

    def _begin_task(self, scope: TaskScope, context: Context) -> None:
        task = scope.task
        span = self._nodes.get(task.id)
        if span is not None:
            span.add_event("retry", {_PREFIX + "attempt": scope.attempt})
        else:
            # The parent of a `@task` call's span is its caller's, which is current in the context.
            called = task.path[-1] == CALL
            above = None if called else self._inside_superstep(scope.run_context.step())
            span = self._nodes[task.id] = context.run(
                self._tracer.start_span, task.name, context=above, attributes=self._of_task(scope)
            )
        context.run(enter, span)

    def _of_task(self, scope: TaskScope) -> dict[str, Any]:
        task = scope.task
        place = {"node": task.name, "step": scope.run_context.step(), "task_id": task.id}
        return self._ids | named(place) | self._on(self.base())

    def _on(self, checkpoint: bytes) -> dict[str, str]:
        return {_PREFIX + "checkpoint_id": as_text(checkpoint)} if checkpoint else {}

    def _inside_superstep(self, step: int) -> contexts.Context:
        if self._superstep is None or self._step != step:
            self._end_superstep()
            self._step, self._begun_on = step, self.base()
            attributes = self._ids | named({"step": step}) | self._on(self._begun_on)
            self._superstep = self._tracer.start_span(
                "superstep", context=self._inside, attributes=attributes
            )
        return trace.set_span_in_context(self._superstep, self._inside)

    def _end_task(self, event: Event) -> None:
        task = event.result.task if isinstance(event, TaskSucceeded) else getattr(event, "task", "")
        span = self._nodes.get(task) if isinstance(task, str) else None
        if span is None:
            return
        match event:
            case TaskSucceeded(result):
                status = "success"
                if result.cached:
                    span.set_attribute(_PREFIX + "cached", value=True)
            case TaskFailed(_, KeyboardInterrupt()):
                status = "cancelled"  # as when Ctrl-C comes while no function runs
            case TaskFailed(_, error):
                status, self._failed = "error", error
                record_error(span, error)
            case TaskInterrupted():
                status = "interrupted"
            case TaskCancelled():
                status = "cancelled"
            case TaskDrained():
                status = "drained"
            case TaskEscaped():
                status = "success"
            case _:
                return  # not an event that ends a task
        del self._nodes[task]
        failed = isinstance(event, TaskFailed) and status != "cancelled"
        self._end_models(task, cast("TaskFailed", event).error if failed else None)
        self._last_ns = time.time_ns()
        close(span, status, self._last_ns)

    def _end_models(self, task: str, error: BaseException | None) -> None:
        """End the spans of model calls that a task or an attempt has left open."""
        models = self._models.pop(task, None)
        if models is not None:
            models.end(error)

    def _end_superstep(self) -> None:
        span, self._superstep = self._superstep, None
        if span is None:
            return
        checkpoint = self.base()
        if checkpoint != self._begun_on:
            span.set_attribute(_PREFIX + "made_checkpoint_id", as_text(checkpoint))
        if self._failed is not None:
            span.set_status(Status(StatusCode.ERROR, type(self._failed).__name__))
        close(span, "success" if self._failed is None else "error", self._last_ns or None)
        self._failed = None

    def end(self, outcome: RunOutcome | BaseException) -> None:
        """See `RunSpans.end`."""
        quietly(self._end, outcome)

    def _end(self, outcome: RunOutcome | BaseException) -> None:
        for task in list(self._models):
            self._end_models(task, None)
        for span in self._nodes.values():
            close(span, "cancelled", None)
        self._nodes.clear()
        self._end_superstep()
        span, checkpoint = self._span, self.base()
        if checkpoint:
            span.set_attribute(_PREFIX + "made_checkpoint_id", as_text(checkpoint))
        error = outcome.error if isinstance(outcome, Failed) else outcome
        status = STATUS.get(type(outcome), "error")
        if isinstance(error, GraphDrained):
            status = "drained"
            span.set_attribute(_PREFIX + "reason", error.reason)
        elif isinstance(error, KeyboardInterrupt):
            status = "cancelled"
        elif isinstance(error, BaseException):
            record_error(span, error)
        close(span, status, None)


def begin(launch: Launch) -> RunTrace | None:
    """Begin the span of a run, as a child of the span that is current in its context.

    Returns: None for a run that is not sampled; its subgraphs are then not sampled either.
    """
    return quietly(_begin, launch)


def quietly(act: Callable[..., T], *args: Any) -> T | None:
    """Call a function, and log its error: samplers and processors must not fail a run.

    Returns: its return value; None if it raised.
    """
    try:
        return act(*args)
    except Exception as error:  # noqa: BLE001 - foreign samplers may raise anything
        log_event("warning", "trace.failed", error=repr(error))
        return None


def _begin(launch: Launch) -> RunTrace | None:
    tracer = trace.get_tracer("actorgraph")
    attributes = span_ids(launch) | named({"durability": launch.policy.durability})
    name = f"run {launch.template.plan.name}"
    if agent := of_agent(launch):
        name, attributes = f"invoke_agent {launch.template.plan.name}", attributes | agent
    span = launch.context.run(tracer.start_span, name, attributes=attributes)
    launch.context.run(enter, span)
    return RunTrace(tracer, span, launch) if span.is_recording() else None


def span_ids(launch: Launch) -> dict[str, Any]:
    """Attributes of all spans of a run."""
    address = launch.address
    attributes = named({"graph": launch.template.plan.name, "run_id": as_text(launch.run)})
    if address.thread_id:
        attributes |= named({"thread_id": address.thread_id})
    if address.namespace:
        attributes |= named({"checkpoint_ns": address.namespace})
    return attributes


def of_agent(launch: Launch) -> dict[str, Any]:
    """OpenTelemetry's attributes of a run of an agent: of a graph whose state has chat messages."""
    plan, thread_id = launch.template.plan, launch.address.thread_id
    # Only the reducers of messages complete their writes.
    if not plan.stamps:
        return {}
    attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": plan.name}
    return {**attributes, "gen_ai.conversation.id": thread_id} if thread_id else attributes


def named(values: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes with our prefix."""
    return {_PREFIX + name: value for name, value in values.items()}


def enter(span: Span) -> None:
    """Make a span the current one of the running context."""
    contexts.attach(trace.set_span_in_context(span))


def close(span: Span, status: str, end_ns: int | None) -> None:
    """End a span with our status; `end_ns` is its time, None for now."""
    span.set_attribute(_PREFIX + "status", status)
    span.end(end_ns)


def address_of(span: SpanContext) -> str:
    """A span's address as text: the "traceparent" of W3C Trace Context."""
    return f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags:02x}"


def span_at(metadata: Mapping[str, Any]) -> SpanContext | None:
    """The span whose address is in a checkpoint's metadata; None if absent."""
    try:
        _, trace_id, span_id, flags = str(metadata.get(TRACE_KEY)).split("-")
        context = SpanContext(
            int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=Flags(int(flags, 16))
        )
    except ValueError:
        return None
    return context if context.is_valid else None
