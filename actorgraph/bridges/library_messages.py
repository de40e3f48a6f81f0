"""LangChain's messages, handlers and named models: hooks that need no task."""

import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any


def messages() -> Any | None:
    """Return LangChain's module of messages, if the program has imported it."""
    return sys.modules.get("langchain_core.messages")


def whole_message(message: Any) -> Any:
    """Make LangChain's plain message of a chunk of LangChain's; others are returned as they are."""
    if not type(message).__module__.startswith("langchain_core."):
        return message
    return import_module("langchain_core.messages").message_chunk_to_message(message)


def is_manager(callbacks: Any) -> bool:
    """Whether a config's callbacks are a callback manager of LangChain's."""
    module = _handlers()
    return module is not None and isinstance(callbacks, module.BaseCallbackManager)


def is_handler(callback: Any) -> bool:
    """Whether an object is a handler of LangChain's callbacks."""
    module = _handlers()
    return module is not None and isinstance(callback, module.BaseCallbackHandler)


def _handlers() -> Any:
    # Without this module no object is of its classes.
    return sys.modules.get("langchain_core.callbacks.base")


def feeds_events(config: Mapping[str, Any]) -> bool:
    """Whether an event stream of LangChain's listens to a call."""
    callbacks = config.get("callbacks")
    if not callbacks or "langchain_core.tracers" not in sys.modules:
        return False
    from actorgraph.bridges.langchain_tasks import is_event_stream

    return any(map(is_event_stream, getattr(callbacks, "handlers", callbacks)))


def named_model(name: str) -> Any:
    """Make LangChain's chat model for a name such as "openai:gpt-5".

    Raises:
        ImportError: LangChain isn't installed.
    """
    return import_module("langchain.chat_models").init_chat_model(name)


def named_embeddings(name: str) -> Any:
    """Make LangChain's embeddings for a name such as "openai:text-embedding-3-small".

    Raises:
        ImportError: LangChain isn't installed.
    """
    return import_module("langchain.embeddings").init_embeddings(name)
