"""Types and values that packages import for signatures, defaults and checks."""

from collections.abc import Callable
from typing import Any, Final

from langchain_core.messages import MessageLikeRepresentation
from langchain_core.runnables import Runnable

from actorgraph.runtime.task.runtime import Runtime

StateNode = Callable[..., Any] | Runnable[Any, Any]
"""A node, as `add_node` takes it."""
Messages = list[MessageLikeRepresentation] | MessageLikeRepresentation
"""Messages, as `add_messages` takes them."""
DEFAULT_RUNTIME: Final = Runtime[Any]()
"""The Runtime outside of a run: no context, no store, writers that do nothing."""
