"""Spans of OpenTelemetry: a run, its supersteps, their nodes. Extra: `otel`.

Receives   each attempt of a task as it begins, each event of a task, the run's end
Sends      spans to the program's tracer provider; node spans become current in the node's own
           context, so that what a node opens, in its tasks and threads too, is inside of it
Order      a superstep's span ends with its last task; a run's after the spans of all its tasks
Links      a run that goes on is linked to the one that made its checkpoint, whose span's address
           stands in the checkpoint's metadata (docs/decisions/0044)
Ends       with the run, whichever way: no span is left open. What a sampler or a processor raises
           is logged, and changes nothing for the run

No span holds a value of the state, an input or a result.
"""

import time
from collections.abc import Callable, Mapping
from contextvars import Context
from typing import Any, TypeVar

import msgspec
from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.trace import Span, SpanContext, Status, StatusCode
from opentelemetry.trace import TraceFlags as Flags

from actorgraph.errors import GraphDrained
from actorgraph.errors.telling import said, stack
from actorgraph.runtime.context import TaskScope
from actorgraph.runtime.interop import Inherit
from actorgraph.runtime.log import event as log_event
from actorgraph.runtime.node_actor import Surroundings
from actorgraph.runtime.runs import Launch
from actorgraph.superstep.nesting import TRACE_KEY
from actorgraph.values.commands import Command
from actorgraph.values.constants import CALL
from actorgraph.values.ids import as_text
from actorgraph.values.records import Restored
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


class RunTrace:
    """The spans of one run. Its methods are called where the run's supervisor lives.

    Attributes:
        launch: the run, with its span current in its context and named in its checkpoints.
        base: the run's checkpoint, as it stands.
    """

    base: Callable[[], bytes] = bytes
    launch: Launch

    def __init__(self, tracer: trace.Tracer, span: Span, launch: Launch) -> None:
        self._tracer = tracer
        self._span = span
        self._ids: dict[str, Any] = ids_of(launch)
        self._inside = launch.context.run(contexts.get_current)
        self._nodes: dict[str, Span] = {}
        self._superstep: Span | None = None
        self._step: int | None = None
        self._begun_on = b""
        self._last_ns = 0
        self._failed: BaseException | None = None
        metadata = {TRACE_KEY: address_of(span.get_span_context()), **launch.policy.metadata}
        policy = msgspec.structs.replace(launch.policy, metadata=metadata)
        self.launch = msgspec.structs.replace(launch, policy=policy, spans=self)

    def goes_on(self, restored: Restored) -> None:
        """See `tracing.Spans.goes_on`."""
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

    def watch(self, around: Surroundings, base: Callable[[], bytes]) -> None:
        """See `tracing.Spans.watch`."""
        self.base = base
        around.inherit = self._inherit(around.inherit)
        around.report = self._reporting(around.report)

    def _inherit(self, inherit: Inherit | None) -> Inherit:
        """What is done to each attempt's context: `inherit`, and the node's span."""

        def both(scope: TaskScope, context: Context) -> None:
            if inherit is not None:
                inherit(scope, context)
            quietly(self._begin_task, scope, context)

        return both

    def _reporting(self, report: Report) -> Report:
        """The supervisor's ear, with the span of each task that ends, ended first."""

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
            # A call is inside of what has called it; that stands in its context.
            called = task.path[-1] == CALL
            above = None if called else self._inside_superstep(scope.lineage.step())
            span = self._nodes[task.id] = context.run(
                self._tracer.start_span, task.name, context=above, attributes=self._of_task(scope)
            )
        context.run(enter, span)

    def _of_task(self, scope: TaskScope) -> dict[str, Any]:
        task = scope.task
        place = {"node": task.name, "step": scope.lineage.step(), "task_id": task.id}
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
            case TaskFailed(_, error):
                status, self._failed = "error", error
                fail(span, error)
            case TaskInterrupted():
                status = "interrupted"
            case TaskCancelled():
                status = "cancelled"
            case TaskDrained():
                status = "drained"
            case TaskEscaped():
                status = "success"
            case _:
                return  # it goes on
        del self._nodes[task]
        self._last_ns = time.time_ns()
        close(span, status, self._last_ns)

    def _end_superstep(self) -> None:
        span, self._superstep = self._superstep, None
        if span is None:
            return
        made = self.base()
        if made != self._begun_on:
            span.set_attribute(_PREFIX + "made_checkpoint_id", as_text(made))
        if self._failed is not None:
            span.set_status(Status(StatusCode.ERROR, type(self._failed).__name__))
        close(span, "success" if self._failed is None else "error", self._last_ns or None)
        self._failed = None

    def end(self, outcome: RunOutcome | BaseException) -> None:
        """See `tracing.Spans.end`."""
        quietly(self._end, outcome)

    def _end(self, outcome: RunOutcome | BaseException) -> None:
        for span in self._nodes.values():
            close(span, "cancelled", None)
        self._nodes.clear()
        self._end_superstep()
        span, made = self._span, self.base()
        if made:
            span.set_attribute(_PREFIX + "made_checkpoint_id", as_text(made))
        error = outcome.error if isinstance(outcome, Failed) else outcome
        status = STATUS.get(type(outcome), "error")
        if isinstance(error, GraphDrained):
            status = "drained"
            span.set_attribute(_PREFIX + "reason", error.reason)
        elif isinstance(error, BaseException):
            fail(span, error)
        close(span, status, None)


def begin(launch: Launch) -> RunTrace | None:
    """Begin the span of a run, inside of the one that is current where it was called.

    Returns: None for a run that is not sampled; what is called in it is not either.
    """
    return quietly(_begin, launch)


def quietly(act: Callable[..., T], *args: Any) -> T | None:
    """Do something that the program's samplers and processors take part in: they change nothing."""
    try:
        return act(*args)
    except Exception as error:  # noqa: BLE001 - they are anybody's
        log_event("warning", "trace.failed", error=repr(error))
        return None


def _begin(launch: Launch) -> RunTrace | None:
    tracer = trace.get_tracer("actorgraph")
    attributes = ids_of(launch) | named({"durability": launch.policy.durability})
    span = launch.context.run(tracer.start_span, f"run {launch.plan.name}", attributes=attributes)
    launch.context.run(enter, span)
    return RunTrace(tracer, span, launch) if span.is_recording() else None


def ids_of(launch: Launch) -> dict[str, Any]:
    """What all spans of a run have."""
    address = launch.address
    found = named({"graph": launch.plan.name, "run_id": as_text(launch.run)})
    if address.thread_id:
        found |= named({"thread_id": address.thread_id})
    if address.namespace:
        found |= named({"checkpoint_ns": address.namespace})
    return found


def named(values: Mapping[str, Any]) -> dict[str, Any]:
    """The same under names of our own."""
    return {_PREFIX + name: value for name, value in values.items()}


def enter(span: Span) -> None:
    """Make a span the current one of the context in which this is called."""
    contexts.attach(trace.set_span_in_context(span))


def fail(span: Span, error: BaseException) -> None:
    """Say that a span ended with an error, and which."""
    # What OpenTelemetry would make of the error itself may be text that no exporter can encode.
    told = {"exception.message": said(error), "exception.stacktrace": stack(error)}
    span.record_exception(error, attributes=told)
    span.set_status(Status(StatusCode.ERROR, f"{type(error).__name__}: {said(error)}"))


def close(span: Span, status: str, end_ns: int | None) -> None:
    """End a span."""
    span.set_attribute(_PREFIX + "status", status)
    span.end(end_ns)


def address_of(span: SpanContext) -> str:
    """Where a span is, as text: W3C Trace Context, "traceparent"."""
    return f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags:02x}"


def span_at(metadata: Mapping[str, Any]) -> SpanContext | None:
    """The span that a checkpoint's metadata name; None if they name none."""
    try:
        _, trace_id, span_id, flags = str(metadata.get(TRACE_KEY)).split("-")
        found = SpanContext(
            int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=Flags(int(flags, 16))
        )
    except ValueError:
        return None
    return found if found.is_valid else None
