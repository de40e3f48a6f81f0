"""LangGraph's names of tools: those of `prebuilt`, known to LangChain from the start.

LangChain recognizes injected arguments by base classes when a tool is made, which may be before
the first ToolNode.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

from typing_extensions import TypedDict

from actorgraph.bridges.library_tools import mark_tools
from actorgraph.compat.parts.config_keys import CONF, CONFIG_KEY_RUNTIME
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
from actorgraph.runtime.task.scope import CURRENT

__all__ = [
    "AsyncToolCallWrapper",
    "InjectedState",
    "InjectedStore",
    "LangChainToolNode",
    "ToolCallRequest",
    "ToolCallTransformer",
    "ToolCallWithContext",
    "ToolCallWrapper",
    "ToolInvocationError",
    "ToolRuntime",
    "langchain_tool",
    "msg_content_output",
    "tools_condition",
]

ToolCallWrapper = Callable[[ToolCallRequest, Callable[[ToolCallRequest], Any]], Any]
AsyncToolCallWrapper = ToolCallWrapper
msg_content_output = content_of


class LangChainToolNode(ToolNode):
    """A `ToolNode` whose functions are LangChain's tools: packages bind them to models."""

    def __init__(self, tools: Sequence[Any], **options: Any) -> None:
        super().__init__([langchain_tool(tool) for tool in tools], **options)

    @property
    def _tools_by_name(self) -> dict[str, Any]:
        """The tools, as packages' tests look at them."""
        return self.tools_by_name

    @property
    def _handle_tool_errors(self) -> Any:
        """The setting `handle_tool_errors`, as packages' tests look at it."""
        return self._handling

    @property
    def _messages_key(self) -> str:
        """The setting `messages_key`: langgraph-supervisor makes a node like a given one."""
        return self._key

    def _request(
        self, call: dict[str, Any], state: Any, config: Mapping[str, Any] | None
    ) -> ToolCallRequest:
        """Make a request; outside of a run, with the runtime that a test's config has."""
        request = super()._request(call, state, config)
        given = ((config or {}).get(CONF) or {}).get(CONFIG_KEY_RUNTIME)
        if given is None or CURRENT.get(None) is not None:
            return request
        names = ("context", "store", "stream_writer", "execution_info", "server_info")
        values = {name: getattr(given, name, None) for name in names}
        return replace(request, runtime=replace(request.runtime, **values))


# Texts and reprs have the name that the program has imported.
LangChainToolNode.__name__ = LangChainToolNode.__qualname__ = "ToolNode"


def langchain_tool(given: Any) -> Any:
    """Make LangChain's tool of a function; a tool is returned as it is."""
    if hasattr(given, "invoke") or not callable(given):
        return given
    return import_module("langchain_core.tools").tool(given)


class ToolCallWithContext(TypedDict):
    """One tool call with the state that its tool gets, as the argument of a Send."""

    tool_call: Any
    __type: str
    state: Any


for _module in ("langchain_core.tools", "langchain_core.messages.tool"):
    import_module(_module)
mark_tools()
