"""LangChain in a task: inherited callbacks, streamed chat models, signs of progress.

Imported only by programs that have imported `langchain_core`: others pay nothing. The handlers
are put into the config that the task's LangChain calls inherit, so that calls without a config
have them too.
"""

from typing import Any

from langchain_core.callbacks import BaseCallbackHandler, BaseCallbackManager, CallbackManager


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
