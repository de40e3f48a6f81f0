"""Parts of agents: a node that runs tools, routes, and a complete ReAct agent."""

from typing import Any

from actorgraph.prebuilt.chat_completions import ChatCompletions
from actorgraph.prebuilt.human import (
    ActionRequest,
    HumanInterrupt,
    HumanInterruptConfig,
    HumanResponse,
)
from actorgraph.prebuilt.react import (
    AgentState,
    AgentStateWithStructuredResponse,
    InvalidChatHistoryError,
    create_react_agent,
    pydantic_state,
    tools_condition,
)
from actorgraph.prebuilt.tool_events import ToolCallStream, ToolCallTransformer
from actorgraph.prebuilt.tool_node import ToolCallRequest, ToolNode
from actorgraph.prebuilt.tool_results import ToolInvocationError
from actorgraph.prebuilt.tools import InjectedState, InjectedStore, InjectedToolCallId, ToolRuntime
from actorgraph.prebuilt.validation import ValidationNode

__all__ = [
    "ActionRequest",
    "AgentState",
    "AgentStatePydantic",  # pyright: ignore[reportUnsupportedDunderAll] - made on first access
    "AgentStateWithStructuredResponse",
    "AgentStateWithStructuredResponsePydantic",  # pyright: ignore[reportUnsupportedDunderAll]
    "ChatCompletions",
    "HumanInterrupt",
    "HumanInterruptConfig",
    "HumanResponse",
    "InjectedState",
    "InjectedStore",
    "InjectedToolCallId",
    "InvalidChatHistoryError",
    "ToolCallRequest",
    "ToolCallStream",
    "ToolCallTransformer",
    "ToolInvocationError",
    "ToolNode",
    "ToolRuntime",
    "ValidationNode",
    "create_react_agent",
    "tools_condition",
]


def __getattr__(name: str) -> Any:
    if name in ("AgentStatePydantic", "AgentStateWithStructuredResponsePydantic"):
        made = globals()[name] = pydantic_state(name)
        return made
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)
