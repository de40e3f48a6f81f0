"""LangChain's callbacks as signs of progress, for nodes with an idle timeout."""

from contextvars import Context
from typing import Any, cast

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.runnables.config import RunnableConfig, var_child_runnable_config

from actorgraph.runtime.callbacks import manager_of
from actorgraph.runtime.context import TaskScope


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


def count_as_progress(scope: TaskScope, context: Context) -> None:
    """Let callbacks of a task's LangChain calls restart its idle timeout."""
    config, listener = dict(scope.config), ProgressListener(scope)
    config["callbacks"] = manager_of(config.get("callbacks"), listener)
    scope.override(config)
    context.run(var_child_runnable_config.set, cast("RunnableConfig", scope.config))
