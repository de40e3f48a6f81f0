"""Parts of agents: a node that runs tools, routes, and a complete ReAct agent."""

from typing import Any

from actorgraph.prebuilt.conditions import tools_condition
from actorgraph.prebuilt.human import (
    ActionRequest,
    HumanInterrupt,
    HumanInterruptConfig,
    HumanResponse,
)
from actorgraph.prebuilt.injected import (
    InjectedState,
    InjectedStore,
    InjectedToolCallId,
    ToolRuntime,
)
from actorgraph.prebuilt.react import InvalidChatHistoryError, create_react_agent
from actorgraph.prebuilt.states import (
    AgentState,
    AgentStateWithStructuredResponse,
    pydantic_state,
)
from actorgraph.prebuilt.tool_errors import ToolInvocationError
from actorgraph.prebuilt.tool_node import ToolCallRequest, ToolNode
from actorgraph.prebuilt.tool_streams import ToolCallStream, ToolCallTransformer
from actorgraph.prebuilt.validation import ValidationNode

__all__ = [
    "ActionRequest",
    "AgentState",
    "AgentStatePydantic",  # pyright: ignore[reportUnsupportedDunderAll] - made on first access
    "AgentStateWithStructuredResponse",
    "AgentStateWithStructuredResponsePydantic",  # pyright: ignore[reportUnsupportedDunderAll]
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
