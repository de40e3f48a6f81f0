"""LangGraph's names of tools: those of `prebuilt`, known to LangChain from the start.

LangChain recognizes injected arguments by base classes when a tool is made, which may be before
the first ToolNode.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from typing_extensions import TypedDict

from actorgraph.prebuilt import (
    InjectedState,
    InjectedStore,
    ToolCallRequest,
    ToolCallTransformer,
    ToolInvocationError,
    ToolNode,
    ToolRuntime,
    tools_condition,
)
from actorgraph.prebuilt.chat_messages import content_of
from actorgraph.prebuilt.tools import register_with_langchain

__all__ = [
    "AsyncToolCallWrapper",
    "InjectedState",
    "InjectedStore",
    "ToolCallRequest",
    "ToolCallTransformer",
    "ToolCallWithContext",
    "ToolCallWrapper",
    "ToolInvocationError",
    "ToolNode",
    "ToolRuntime",
    "msg_content_output",
    "tools_condition",
]

ToolCallWrapper = Callable[[ToolCallRequest, Callable[[ToolCallRequest], Any]], Any]
AsyncToolCallWrapper = ToolCallWrapper
msg_content_output = content_of


class ToolCallWithContext(TypedDict):
    """One tool call with the state that its tool gets, as the argument of a Send."""

    tool_call: Any
    __type: str
    state: Any


for _module in ("langchain_core.tools", "langchain_core.messages.tool"):
    import_module(_module)
register_with_langchain()
