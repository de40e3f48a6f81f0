"""The type variables that packages parametrize LangGraph's classes with."""

from typing import Any

from typing_extensions import TypedDict, TypeVar

StateLike = Any
"""A TypedDict, dataclass or pydantic model."""
UNSET: Any = object()
"""The default of an argument that wasn't given."""

StateT = TypeVar("StateT")
StateT_co = TypeVar("StateT_co", covariant=True)
StateT_contra = TypeVar("StateT_contra", contravariant=True)
NodeInputT = TypeVar("NodeInputT")
ContextT = TypeVar("ContextT", default=None)
InputT = TypeVar("InputT", default=StateT)
OutputT = TypeVar("OutputT", default=StateT)


class DeprecatedKwargs(TypedDict):
    """Keyword arguments that a package still accepts, and warns about."""
