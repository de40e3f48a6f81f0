"""Stream LangChain's chat models: their tokens become chunks of `stream_mode="messages"`."""

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
    from actorgraph.runtime.live import MessageTap


class ModelListener(BaseCallbackHandler, _StreamingCallbackHandler[Any]):
    """Sends the output of one task's chat models. The second base makes `invoke` stream."""

    run_inline = True

    def __init__(self, tap: "MessageTap") -> None:
        self._tap = tap
        self._metadata: dict[UUID, dict[str, Any]] = {}

    def on_chat_model_start(
        self, serialized: Any, messages: Any, *, run_id: UUID, **more: Any
    ) -> None:
        """Remember the metadata for a model's pieces, unless it is tagged "nostream"."""
        scope = CURRENT.get(None)
        tags = more.get("tags") or ()
        # The tasks of a subgraph have listeners of their own, or none.
        if scope is None or scope.task is not self._tap.task or TAG_NOSTREAM in tags:
            return
        from actorgraph.runtime.live import user_tags

        metadata = {**self._tap.metadata, **(more.get("metadata") or {})}
        shown = user_tags(tags)
        self._metadata[run_id] = {**metadata, "tags": shown} if shown else metadata

    def on_llm_new_token(self, token: Any, *, chunk: Any = None, run_id: UUID, **more: Any) -> None:
        """Send a piece."""
        metadata = self._metadata.get(run_id)
        if metadata is not None and isinstance(chunk, ChatGenerationChunk):
            self._tap.offer(chunk.message, metadata)

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **more: Any) -> None:
        """Send the message of a model that doesn't stream."""
        metadata = self._metadata.pop(run_id, None)
        made = response.generations[0] if response.generations else []
        if metadata is not None and made and isinstance(made[0], ChatGeneration):
            self._tap.offer_new(made[0].message, metadata)

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **more: Any) -> None:
        """Forget a model that failed."""
        self._metadata.pop(run_id, None)

    def tap_output_aiter(self, run_id: UUID, output: Any) -> Any:
        """Leave a runnable's output alone."""
        return output

    def tap_output_iter(self, run_id: UUID, output: Any) -> Any:
        """Leave a runnable's output alone."""
        return output


def stream_models(tap: "MessageTap", scope: TaskScope, context: Context) -> None:
    """Send the output of the chat models that a task calls to its tap."""
    config = dict(scope.config)
    config["metadata"] = dict(tap.metadata)
    config["tags"] = list(tap.tags)
    # Without the listener of a parent task: it ignores the models of other tasks.
    config["callbacks"] = manager_of(
        config.get("callbacks"), ModelListener(tap), without=ModelListener
    )
    scope.override(config)
    context.run(var_child_runnable_config.set, cast("RunnableConfig", scope.config))
