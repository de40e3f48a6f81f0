"""Tools of LangChain and LangGraph in a ToolNode, and ours for LangChain."""

import sys
from typing import Any

from actorgraph.bridges.langgraph_values import langgraph_module
from actorgraph.prebuilt.tools import (
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


def mark_tools() -> None:
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


def is_tool_method(method: Any) -> bool:
    """Whether a method of a tool is LangChain's, not one of the tool's own class."""
    return str(getattr(method, "__module__", "")).startswith("langchain_core.tools.")


def is_tool_default(method: Any) -> bool:
    """Whether a method of a tool is that of LangChain's base class."""
    return getattr(method, "__module__", "") == "langchain_core.tools.base"


def is_tool_runtime(kind: Any) -> bool:
    """Whether a class is the ToolRuntime of the real LangGraph, which pydantic demands."""
    theirs = getattr(langgraph_module("langgraph.prebuilt.tool_node"), "ToolRuntime", None)
    return theirs is not None and kind is theirs
