"""Spans of LangChain's chat models, from its callbacks.

Imported only in traced runs of programs that have imported `langchain_core`.
"""

from contextvars import Context
from typing import Any, cast
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.outputs import LLMResult
from langchain_core.runnables.config import RunnableConfig, var_child_runnable_config

from actorgraph.bridges.langchain_tasks import manager_of
from actorgraph.runtime.task.operation_spans import PROVIDERS, OperationSpan
from actorgraph.runtime.task.scope import TaskScope


class ModelSpans(BaseCallbackHandler):
    """Makes a span of each call of a chat model, below the span that is current at its start."""

    run_inline = True

    def __init__(self) -> None:
        self._open: dict[UUID, OperationSpan] = {}

    def on_chat_model_start(
        self, serialized: Any, messages: Any, *, run_id: UUID, **more: Any
    ) -> None:
        """Begin a span."""
        metadata, asked = more.get("metadata") or {}, more.get("invocation_params") or {}
        model = metadata.get("ls_model_name") or asked.get("model") or asked.get("model_name") or ""
        provider: Any = metadata.get("ls_provider")
        attributes = {
            "request.model": model or None,
            "provider.name": PROVIDERS.get(provider, provider),
            "request.temperature": metadata.get("ls_temperature"),
            "request.max_tokens": metadata.get("ls_max_tokens"),
        }
        self._open[run_id] = OperationSpan("chat", model, attributes)

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **more: Any) -> None:
        """End the span, with what the model's message says about it."""
        span = self._open.pop(run_id, None)
        if span is not None:
            made = response.generations[0] if response.generations else []
            span.answered(getattr(made[0], "message", None) if made else None)
            span.end()

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **more: Any) -> None:
        """End the span with the error; by Ctrl-C it was cancelled."""
        span = self._open.pop(run_id, None)
        if span is not None:
            by_user = isinstance(error, KeyboardInterrupt)
            if not by_user:
                span.fail(error)
            span.end(cancelled=by_user)

    def end(self, error: BaseException | None) -> None:
        """End the spans of calls that were cancelled: LangChain calls no handler for these.

        Args:
            error: the error of the task that made the calls; None for status "cancelled".
        """
        for run_id in list(self._open):
            # A call in a worker thread may end just now.
            span = self._open.pop(run_id, None)
            if span is not None:
                if error is not None:
                    span.fail(error)
                span.end(cancelled=error is None)


def trace_models(scope: TaskScope, context: Context) -> ModelSpans:
    """Let the chat models that a task calls make spans.

    Returns: the open spans, to end with the task.
    """
    config, made = dict(scope.config), ModelSpans()
    # Without the handler of a run above: each call has one span.
    config["callbacks"] = manager_of(config.get("callbacks"), made, without=ModelSpans)
    scope.override(config)
    context.run(var_child_runnable_config.set, cast("RunnableConfig", scope.config))
    return made
