"""LangChain in a task: inherited callbacks, streamed chat models, signs of progress.

Imported only by programs that have imported `langchain_core`: others pay nothing. The handlers
are put into the config that the task's LangChain calls inherit, so that calls without a config
have them too.
"""

from contextvars import Context
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler, BaseCallbackManager, CallbackManager
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, LLMResult
from langchain_core.runnables import Runnable
from langchain_core.runnables.config import RunnableConfig, var_child_runnable_config
from langchain_core.tracers._streaming import _StreamingCallbackHandler

from actorgraph.plan.plan import NodePlan, Plan
from actorgraph.runtime.task.scope import CURRENT, TaskScope
from actorgraph.values.configs import LIBRARY_KEY
from actorgraph.values.constants import TAG_NOSTREAM

if TYPE_CHECKING:
    from actorgraph.runtime.task.live import MessageTap


def manager_of(
    callbacks: Any, *more: BaseCallbackHandler, without: type | tuple[type, ...] = ()
) -> BaseCallbackManager:
    """A callback manager with the handlers of a config's callbacks, and more.

    Args:
        callbacks: of a config: a list, a manager or None. Not modified.
        more: handlers to add.
        without: classes of handlers to leave out.
    """
    # A manager, not a list: if a bound Runnable is called with a config, LangChain adds the
    # inherited handlers to the config's. Handlers that are in both lists it calls twice; those
    # that are in both managers it calls once.
    if isinstance(callbacks, BaseCallbackManager):
        manager = callbacks.copy()
        for handler in [h for h in manager.handlers if isinstance(h, without)]:
            manager.remove_handler(handler)
    else:
        own = [h for h in callbacks or () if not isinstance(h, without)]
        manager = CallbackManager(handlers=[*own], inheritable_handlers=[*own])
    for handler in more:
        manager.add_handler(handler, inherit=True)
    return manager


class ModelListener(BaseCallbackHandler, _StreamingCallbackHandler[Any]):
    """Sends the output of one task's chat models. The second base makes `invoke` stream."""

    run_inline = True

    def __init__(self, tap: "MessageTap") -> None:
        self._tap = tap
        self._metadata: dict[UUID, dict[str, Any]] = {}
        self._ids: dict[UUID, str | None] = {}

    def on_chat_model_start(
        self, serialized: Any, messages: Any, *, run_id: UUID, **more: Any
    ) -> None:
        """Remember the metadata for a model's pieces, unless it is tagged "nostream"."""
        scope = CURRENT.get(None)
        tags = more.get("tags") or ()
        # The tasks of a subgraph have listeners of their own, or none.
        if scope is None or scope.task is not self._tap.task or TAG_NOSTREAM in tags:
            return
        from actorgraph.runtime.task.live import user_tags

        metadata = {**self._tap.metadata, **(more.get("metadata") or {})}
        shown = user_tags(tags)
        self._metadata[run_id] = {**metadata, "tags": shown} if shown else metadata

    def on_llm_new_token(self, token: Any, *, chunk: Any = None, run_id: UUID, **more: Any) -> None:
        """Send a piece."""
        metadata = self._metadata.get(run_id)
        if metadata is not None and isinstance(chunk, ChatGenerationChunk):
            self._tap.offer(self._with_one_id(chunk.message, run_id), metadata)

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **more: Any) -> None:
        """Send the message of a model that doesn't stream."""
        metadata = self._metadata.pop(run_id, None)
        self._ids.pop(run_id, None)
        made = response.generations[0] if response.generations else []
        if metadata is not None and made and isinstance(made[0], ChatGeneration):
            self._tap.offer_new(made[0].message, metadata)

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **more: Any) -> None:
        """Forget a model that failed."""
        self._metadata.pop(run_id, None)
        self._ids.pop(run_id, None)

    def _with_one_id(self, piece: Any, run_id: UUID) -> Any:
        """Return a piece with the id of its message.

        LangChain gives an id of its own to pieces that the model left without one, the last of
        them included; the whole message has the model's.
        """
        known = self._ids.setdefault(run_id, piece.id)
        if known == piece.id or str(run_id) not in (piece.id or ""):
            return piece
        return piece.model_copy(update={"id": known})

    def tap_output_aiter(self, run_id: UUID, output: Any) -> Any:
        """Leave a runnable's output alone."""
        return output

    def tap_output_iter(self, run_id: UUID, output: Any) -> Any:
        """Leave a runnable's output alone."""
        return output


def stream_models(tap: "MessageTap", scope: TaskScope, context: Context) -> None:
    """Send the output of the chat models that a task calls to its tap."""
    config = dict(scope.config)
    # The graph's own mark is for its messages: a subgraph, and its agents, have their marks.
    marks = () if LIBRARY_KEY in config["metadata"] else (LIBRARY_KEY,)
    config["metadata"] = {k: v for k, v in tap.metadata.items() if k not in marks}
    config["tags"] = list(tap.tags)
    # Without the listener of a parent task: it ignores the models of other tasks.
    config["callbacks"] = manager_of(
        config.get("callbacks"), ModelListener(tap), without=ModelListener
    )
    scope.override(config)
    context.run(var_child_runnable_config.set, cast("RunnableConfig", scope.config))


def inherit_config(scope: TaskScope, context: Context) -> None:
    """Let a task's LangChain calls without a config inherit its callbacks, tags and metadata."""
    config = scope.config
    if config.get("callbacks"):
        scope.override({**config, "callbacks": manager_of(config["callbacks"])})
    context.run(var_child_runnable_config.set, cast("RunnableConfig", scope.config))


def is_event_stream(handler: Any) -> bool:
    """Whether a handler of callbacks receives streamed output too."""
    return isinstance(handler, _StreamingCallbackHandler)


def is_graph(candidate: Any) -> bool:
    """Whether an object is a compiled graph of this library."""
    return isinstance(getattr(candidate, "plan", None), Plan)


def for_trio(node: NodePlan) -> NodePlan:
    """Adapt a node to trio: a Runnable, which awaits asyncio objects, runs in a thread.

    Compiled graphs, which are Runnables too, await only what trio has.
    """
    runnable = getattr(node.call, "__self__", None)
    if isinstance(runnable, Runnable) and node.is_async and not is_graph(runnable):
        return replace(node, call=runnable.invoke, is_async=False)
    return node


class ProgressListener(BaseCallbackHandler):
    """Restarts the idle timeout of one task at each callback."""

    run_inline = True

    def __init__(self, scope: TaskScope) -> None:
        self._scope = scope

    def _touch(self, *_: Any, **__: Any) -> None:
        if self._scope.progress is not None:
            self._scope.progress()

    on_llm_start = on_chat_model_start = on_llm_new_token = on_llm_end = on_llm_error = _touch
    on_chain_start = on_chain_end = on_chain_error = on_agent_action = on_agent_finish = _touch
    on_tool_start = on_tool_end = on_tool_error = on_custom_event = on_text = on_retry = _touch
    on_retriever_start = on_retriever_end = on_retriever_error = _touch


def count_progress(scope: TaskScope, context: Context) -> None:
    """Let callbacks of a task's LangChain calls restart its idle timeout."""
    config, listener = dict(scope.config), ProgressListener(scope)
    config["callbacks"] = manager_of(config.get("callbacks"), listener)
    scope.override(config)
    context.run(var_child_runnable_config.set, cast("RunnableConfig", scope.config))
