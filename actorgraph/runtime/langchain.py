"""LangChain's chat models, listened to: their tokens become chunks of `stream_mode="messages"`.

Imported only where `langchain_core` already is. A handler stands in the config that the task's
LangChain calls inherit, so a model that is called without a config is heard too.
"""

from contextvars import Context
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, LLMResult
from langchain_core.runnables.config import RunnableConfig, var_child_runnable_config
from langchain_core.tracers._streaming import _StreamingCallbackHandler

from actorgraph.runtime.callbacks import manager_of
from actorgraph.runtime.context import CURRENT, TaskScope
from actorgraph.values.constants import TAG_NOSTREAM

if TYPE_CHECKING:
    from actorgraph.runtime.messages import MessageTap


class ModelListener(BaseCallbackHandler, _StreamingCallbackHandler[Any]):
    """Hears the chat models of one task. The second base makes `invoke` stream."""

    run_inline = True

    def __init__(self, tap: "MessageTap") -> None:
        self._tap = tap
        self._metadata: dict[UUID, dict[str, Any]] = {}

    def on_chat_model_start(
        self, serialized: Any, messages: Any, *, run_id: UUID, **more: Any
    ) -> None:
        """Remember where a model's pieces come from, unless it is told to be silent."""
        scope = CURRENT.get(None)
        tags = more.get("tags") or ()
        # A graph that the task runs has tasks of its own, which are listened to or not.
        if scope is None or scope.task is not self._tap.task or TAG_NOSTREAM in tags:
            return
        from actorgraph.runtime.messages import user_tags

        metadata = {**self._tap.metadata, **(more.get("metadata") or {})}
        shown = user_tags(tags)
        self._metadata[run_id] = {**metadata, "tags": shown} if shown else metadata

    def on_llm_new_token(self, token: Any, *, chunk: Any = None, run_id: UUID, **more: Any) -> None:
        """Send a piece."""
        metadata = self._metadata.get(run_id)
        if metadata is not None and isinstance(chunk, ChatGenerationChunk):
            self._tap.offer(chunk.message, metadata)

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **more: Any) -> None:
        """Send the whole message of a model that doesn't stream."""
        metadata = self._metadata.pop(run_id, None)
        made = response.generations[0] if response.generations else []
        if metadata is not None and made and isinstance(made[0], ChatGeneration):
            self._tap.offer_new(made[0].message, metadata)

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **more: Any) -> None:
        """Forget a model that failed."""
        self._metadata.pop(run_id, None)

    def tap_output_aiter(self, run_id: UUID, output: Any) -> Any:
        """Nothing is read from a runnable's output."""
        return output

    def tap_output_iter(self, run_id: UUID, output: Any) -> Any:
        """Nothing is read from a runnable's output."""
        return output


def listen(tap: "MessageTap", scope: TaskScope, context: Context) -> None:
    """Let the task's LangChain calls, with the task's config or without, report to the tap."""
    config = dict(scope.config)
    config["metadata"] = dict(tap.metadata)
    config["tags"] = list(tap.tags)
    # A listener of a task above hears no others.
    config["callbacks"] = manager_of(
        config.get("callbacks"), ModelListener(tap), without=ModelListener
    )
    scope.override(config)
    context.run(var_child_runnable_config.set, cast("RunnableConfig", scope.config))
