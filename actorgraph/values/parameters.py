"""Type parameters of graphs, for annotations: `CompiledStateGraph[State]`, `Pregel[Any]`.

At run time any number of parameters is accepted and none has a meaning: annotations that were
written for LangGraph, and subclasses of `Pregel[State]`, are made without an error. Type checkers
see a class with four parameters, each with a default.
"""

from types import GenericAlias
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import Generic

    from typing_extensions import TypeVar

    StateT = TypeVar("StateT", default=Any)
    ContextT = TypeVar("ContextT", default=Any)
    InputT = TypeVar("InputT", default=Any)
    OutputT = TypeVar("OutputT", default=Any)

    class GraphParameters(Generic[StateT, ContextT, InputT, OutputT]):
        """Base of what has the parameters state, context, input and output."""

else:
    # Not typing.Generic: before Python 3.13 its parameters can't have defaults, so `Pregel[Any]`
    # would be refused.
    class GraphParameters:
        """Base of what has the parameters state, context, input and output."""

        def __class_getitem__(cls, parameters: Any) -> GenericAlias:
            return GenericAlias(cls, parameters)
