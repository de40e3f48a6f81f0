"""Parts of agents: a node that runs tools, routes, and an agent that is put together of them."""

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
from actorgraph.prebuilt.tool_errors import ToolInvocationError
from actorgraph.prebuilt.tool_node import ToolCallRequest, ToolNode
from actorgraph.prebuilt.validation import ValidationNode

__all__ = [
    "ActionRequest",
    "HumanInterrupt",
    "HumanInterruptConfig",
    "HumanResponse",
    "InjectedState",
    "InjectedStore",
    "InjectedToolCallId",
    "ToolCallRequest",
    "ToolInvocationError",
    "ToolNode",
    "ToolRuntime",
    "ValidationNode",
    "tools_condition",
]
