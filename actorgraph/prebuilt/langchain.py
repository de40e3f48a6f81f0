"""Make this library's classes known to LangChain, in a program that has imported it."""

import sys

from actorgraph.prebuilt.injected import (
    InjectedState,
    InjectedStore,
    InjectedToolCallId,
    ToolRuntime,
)
from actorgraph.values.commands import Command

_BASES: tuple[tuple[str, str, tuple[type, ...]], ...] = (
    ("tools.base", "InjectedToolArg", (InjectedState, InjectedStore)),
    ("tools.base", "InjectedToolCallId", (InjectedToolCallId,)),
    ("tools.base", "_DirectlyInjectedToolArg", (ToolRuntime,)),
    ("messages.tool", "ToolOutputMixin", (Command,)),
)


def register_with_langchain() -> None:
    """Add LangChain's base classes to this library's marks and `Command`, if it is imported.

    LangChain recognizes hidden arguments of tools, and results that it must not convert, by base
    classes, which exist only once the program has imported it. Called when a ToolNode is made,
    which is before any of its tools is bound to a model or run.
    """
    for module, name, classes in _BASES:
        theirs = getattr(sys.modules.get(f"langchain_core.{module}"), name, None)
        for ours in classes:
            if theirs is not None and not issubclass(ours, theirs):
                first, *others = ours.__bases__
                ours.__bases__ = (first, theirs, *others)
