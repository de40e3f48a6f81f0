"""Types of create_react_agent's arguments, and its helpers, as packages import them."""

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, SystemMessage, ToolMessage
from langchain_core.runnables import Runnable, RunnableBinding, RunnableSequence
from pydantic import BaseModel

from actorgraph.compat.parts.langchain_tools import langchain_tool
from actorgraph.compat.parts.runnables import RunnableCallable
from actorgraph.prebuilt import ToolNode
from actorgraph.prebuilt import create_react_agent as create_own_agent

StateSchema = Any
"""A state: a TypedDict or a pydantic model."""
StateSchemaType = type[Any]
StructuredResponse = dict[str, Any] | BaseModel
StructuredResponseSchema = dict[str, Any] | type[BaseModel]
Prompt = SystemMessage | str | Callable[..., Any] | Runnable[Any, Any]
"""Put before the conversation by create_react_agent; or a function that does it."""


@functools.wraps(create_own_agent)
def create_react_agent(model: Any, tools: Any, *args: Any, **options: Any) -> Any:
    """Make the agent with functions as LangChain's tools: models of packages bind only these."""
    if not isinstance(tools, ToolNode):
        tools = [langchain_tool(tool) for tool in tools]
    return create_own_agent(model, tools, *args, **options)


def get_model(model: Any) -> BaseChatModel:
    """Return the chat model of a sequence or of a bound model.

    Raises:
        TypeError: the graph has none.
    """
    if isinstance(model, RunnableSequence):
        kinds = (RunnableBinding, BaseChatModel)
        model = next((step for step in model.steps if isinstance(step, kinds)), model)
    if isinstance(model, RunnableBinding):
        model = model.bound
    if not isinstance(model, BaseChatModel):
        raise TypeError(
            "Expected `model` to be a ChatModel or RunnableBinding "
            f"(e.g. model.bind_tools(...)), got {type(model)}"
        )
    return model


def get_state_value(state: Any, key: str, default: Any = None) -> Any:
    """Return a key of a state: a dict, or an object with attributes."""
    return state.get(key, default) if isinstance(state, dict) else getattr(state, key, default)


def get_prompt_runnable(prompt: Any) -> Any:
    """Return what makes a model's input of a state: its messages, with the prompt before them.

    Args:
        prompt: a text or a system message; a function or runnable that makes the whole input; None
            for the messages alone.
    Raises:
        ValueError: it is none of these.
    """
    if isinstance(prompt, str):
        prompt = SystemMessage(content=prompt)
    if prompt is None or isinstance(prompt, SystemMessage):
        before = [] if prompt is None else [prompt]
        return RunnableCallable(
            lambda state: [*before, *get_state_value(state, "messages")], name="Prompt"
        )
    if inspect.iscoroutinefunction(prompt):
        return RunnableCallable(None, prompt, name="Prompt")
    if isinstance(prompt, Runnable):
        return prompt
    if callable(prompt):
        return RunnableCallable(prompt, name="Prompt")
    raise ValueError(f"Got unexpected type for `prompt`: {type(prompt)}")


def validate_chat_history(messages: Sequence[Any]) -> None:
    """Check that each tool call of a model has an answer.

    Raises:
        ValueError: one has none.
    """
    calls = [
        c for message in messages if isinstance(message, AIMessage) for c in message.tool_calls
    ]
    answered = {m.tool_call_id for m in messages if isinstance(m, ToolMessage)}
    left = [call for call in calls if call["id"] not in answered]
    if left:
        raise ValueError(
            "Found AIMessages with tool_calls that do not have a corresponding ToolMessage. "
            f"Here are the first few of those tool calls: {left[:3]}."
        )
