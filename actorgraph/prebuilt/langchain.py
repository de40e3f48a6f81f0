"""What LangChain has to know of us, in a program that has imported it: which arguments of tools a
model may not see, and that a tool may return a Command.

It knows both by base classes, which only exist once the program has imported it. So our marks
take them on when a ToolNode is made, which is before any tool is bound to a model or run.
"""

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


def tell_langchain() -> None:
    """Let our classes be LangChain's too, if it is there."""
    for module, name, classes in _BASES:
        theirs = getattr(sys.modules.get(f"langchain_core.{module}"), name, None)
        for ours in classes:
            if theirs is not None and not issubclass(ours, theirs):
                first, *others = ours.__bases__
                ours.__bases__ = (first, theirs, *others)
