"""Types of create_react_agent's arguments, as packages name them in signatures."""

from collections.abc import Callable
from typing import Any

from langchain_core.messages import SystemMessage
from langchain_core.runnables import Runnable
from pydantic import BaseModel

StateSchema = Any
"""A state: a TypedDict or a pydantic model."""
StateSchemaType = type[Any]
StructuredResponse = dict[str, Any] | BaseModel
StructuredResponseSchema = dict[str, Any] | type[BaseModel]
Prompt = SystemMessage | str | Callable[..., Any] | Runnable[Any, Any]
"""Put before the conversation by create_react_agent; or a function that does it."""
