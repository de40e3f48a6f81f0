"""Spans of model calls and tool calls inside of a node, with OpenTelemetry's `gen_ai.*` attributes.

A span is begun only where the current one is recorded, which costs a look into `sys.modules` in a
program that doesn't trace. Spans hold names, ids and counts, never arguments, messages or results.
An error of a processor is logged, and changes nothing for the call.
"""

import sys
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Self, TypeGuard, cast

from actorgraph.errors.texts import error_text, error_traceback
from actorgraph.runtime.log import event as log_event
from actorgraph.runtime.own_spans import OwnSpans
from actorgraph.runtime.task.scope import CURRENT

PROVIDERS: Mapping[str, str] = {
    "google_genai": "gcp.gemini",
    "google_vertexai": "gcp.vertex_ai",
    "amazon_bedrock": "aws.bedrock",
    "azure": "azure.ai.openai",
    "azure_ai": "azure.ai.inference",
    "mistral": "mistral_ai",
    "mistralai": "mistral_ai",
    "xai": "x_ai",
    "ibm": "ibm.watsonx.ai",
}
"""LangChain's names of providers -> OpenTelemetry's, where they differ."""


class OperationSpan:
    """The span of one call; does nothing where the current span isn't recorded.

    Used as a context it is also the current span meanwhile. An error that leaves it is recorded.

    Args:
        operation: `gen_ai.operation.name`: "chat" or "execute_tool".
        subject: the model or the tool, for the span's name; "" if unknown.
        attributes: without the prefix `gen_ai.`; those that are None are left out.
    """

    def __init__(self, operation: str, subject: str, attributes: Mapping[str, Any]) -> None:
        self._span: Any = None
        self._entered: Any = None
        self._has_failed = False
        self._api: Any = sys.modules.get("opentelemetry.trace")
        if self._api is None or not OwnSpans.on:
            return
        if not self._api.get_current_span().is_recording():
            return
        attributes_of_call = {"operation.name": operation, **attributes}
        scope = CURRENT.get(None)
        if scope is not None and scope.run_context.thread_id:
            attributes_of_call["conversation.id"] = scope.run_context.thread_id
        kinds = self._api.SpanKind
        try:
            self._span = self._api.get_tracer("actorgraph").start_span(
                f"{operation} {subject}".rstrip(),
                kind=kinds.CLIENT if operation == "chat" else kinds.INTERNAL,
                attributes=_named(attributes_of_call),
            )
        except Exception as error:  # noqa: BLE001 - foreign samplers may raise anything
            _failed(error)

    def answered(self, message: Any) -> None:
        """Note the model, the tokens and the end of a model's message."""
        if self._span is None:
            return
        try:
            self._span.set_attributes(_named(_of_message(message)))
        except Exception as error:  # noqa: BLE001 - a message may be any object
            _failed(error)

    def fail(self, error: BaseException) -> None:
        """Record an error, once; one that the caller handles doesn't leave the context."""
        if self._span is None or self._has_failed:
            return
        self._has_failed = True
        try:
            self._span.set_attribute("error.type", type(error).__qualname__)
            record_error(self._span, error)
        except Exception as problem:  # noqa: BLE001 - foreign processors may raise anything
            _failed(problem)

    def end(self, *, cancelled: bool = False) -> None:
        """End the span; `cancelled`: with this status, because the call was given up."""
        span, self._span = self._span, None
        if span is not None:
            try:
                if cancelled:
                    span.set_attribute("actorgraph.status", "cancelled")
                span.end()
            except Exception as error:  # noqa: BLE001 - foreign processors may raise anything
                _failed(error)

    def __enter__(self) -> Self:
        if self._span is not None:
            self._entered = self._api.use_span(
                self._span, record_exception=False, set_status_on_exception=False
            )
            self._entered.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._entered is not None:
            self._entered.__exit__(None, None, None)
        # A question or a cancellation is not an error of the call.
        if isinstance(error, Exception):
            self.fail(error)
        self.end()


def record_error(span: Any, error: BaseException) -> None:
    """Record an error in a span and set its status.

    Of an error about a tool's arguments only the type and the tool's name: its text has them.
    """
    from opentelemetry.trace import Status, StatusCode

    # The text that OpenTelemetry makes of an error may be one that no exporter can encode.
    text = _text_of(error)
    # The tracebacks of causes have their texts.
    hides = any(_is_about_arguments(part) for part in _chain(error))
    texts = {
        "exception.message": text,
        "exception.stacktrace": "" if hides else error_traceback(error),
    }
    span.record_exception(error, attributes=texts)
    span.set_status(Status(StatusCode.ERROR, f"{type(error).__name__}: {text}"))


def _text_of(error: BaseException) -> str:
    return f"tool {error.tool_name!r}" if _is_about_arguments(error) else error_text(error)


def _is_about_arguments(error: Any) -> TypeGuard[Any]:
    """Whether an error is a ToolInvocationError, ours or LangGraph's."""
    return hasattr(error, "tool_kwargs") and hasattr(error, "tool_name")


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Iterate over an error, its causes and the errors in groups of them, each once."""
    seen, left = set[int](), [error]
    while left:
        part = left.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        yield part
        left += [e for e in (part.__cause__, part.__context__) if e is not None]
        if isinstance(part, BaseExceptionGroup):
            left += cast("BaseExceptionGroup[BaseException]", part).exceptions


def _of_message(message: Any) -> dict[str, Any]:
    response = getattr(message, "response_metadata", None) or {}
    used = getattr(message, "usage_metadata", None) or {}
    reason = response.get("finish_reason") or response.get("stop_reason")
    return {
        "response.model": response.get("model_name") or response.get("model"),
        "response.id": response.get("id"),
        "response.finish_reasons": [str(reason)] if reason else None,
        "usage.input_tokens": used.get("input_tokens"),
        "usage.output_tokens": used.get("output_tokens"),
    }


def _named(values: Mapping[str, Any]) -> dict[str, Any]:
    return {f"gen_ai.{name}": value for name, value in values.items() if value is not None}


def _failed(error: Exception) -> None:
    log_event("warning", "trace.failed", error=repr(error))
