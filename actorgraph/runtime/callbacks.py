"""LangChain's handlers of a task as one manager, as its own Runnables hand them on.

Imported only where `langchain_core` already is. A list would not do: where a Runnable that has
been bound is called with a config, LangChain adds the inherited handlers to those of the config,
and of two lists it calls what stands in both twice. Of two managers it calls each handler once.
"""

from typing import Any

from langchain_core.callbacks import BaseCallbackHandler, BaseCallbackManager, CallbackManager


def manager_of(
    callbacks: Any, *more: BaseCallbackHandler, without: type | tuple[type, ...] = ()
) -> BaseCallbackManager:
    """The manager of a config's callbacks, which are not changed, and of more handlers.

    Args:
        without: the classes of handlers to leave out.
    """
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
