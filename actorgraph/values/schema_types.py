"""Type variables of graphs: their state, context, input and output.

For type checkers these variables have defaults (PEP 696), so that an annotation may leave them
out. Python 3.11 can't express that; when a program runs, the classes below accept any number of
parameters and ignore them, and nothing is imported from `typing_extensions`, whose stubs every
type checker has (docs/decisions/0129).
"""

from collections.abc import Callable, Mapping
from types import GenericAlias
from typing import TYPE_CHECKING, Any, Concatenate, Generic, Protocol

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    StateT = TypeVar("StateT", default=Any)
    ContextT = TypeVar("ContextT", default=Any)
    InputT = TypeVar("InputT", default=StateT)
    OutputT = TypeVar("OutputT", default=StateT)
    ValuesT = TypeVar("ValuesT", default=StateT)
    ResultT = TypeVar("ResultT", default=OutputT)
    SnapshotT = TypeVar("SnapshotT", default=Any)
    ChunkT = TypeVar("ChunkT", default=Any)
    OwnResultT = TypeVar("OwnResultT", default=Any)
    DestinationT_co = TypeVar("DestinationT_co", bound=str, default=str, covariant=True)
    PlainStateT = TypeVar("PlainStateT", bound="PlainState")
    PlainOutputT = TypeVar("PlainOutputT", bound="PlainState")

    class BuilderTypes(Generic[StateT, ContextT, InputT, OutputT]):
        """The parameters of a graph that is being declared."""

    class GraphTypes(Generic[StateT, ContextT, InputT, OutputT, ValuesT, ResultT]):
        """The parameters of a compiled graph."""

else:
    from typing import TypeVar

    StateT = TypeVar("StateT")
    ContextT = TypeVar("ContextT")
    InputT = TypeVar("InputT")
    OutputT = TypeVar("OutputT")
    ValuesT = TypeVar("ValuesT")
    ResultT = TypeVar("ResultT")
    SnapshotT = TypeVar("SnapshotT")
    ChunkT = TypeVar("ChunkT")
    OwnResultT = TypeVar("OwnResultT")
    DestinationT_co = TypeVar("DestinationT_co", bound=str, covariant=True)
    PlainStateT = TypeVar("PlainStateT")
    PlainOutputT = TypeVar("PlainOutputT")

    class BuilderTypes:
        """Accepts any parameters: `StateGraph[State]`, `StateGraph[State, Context]`."""

        __class_getitem__ = classmethod(GenericAlias)

    class _NoBase:
        """A base with any parameters that leaves no class behind."""

        def __getitem__(self, _: object) -> "_NoBase":
            return self

        def __mro_entries__(self, _: object) -> tuple[type, ...]:
            return ()

    GraphTypes = _NoBase()


OwnInputT = TypeVar("OwnInputT")
"""The input of a node with `input_schema`, or of an entrypoint."""

PlainState = (
    Mapping[str, Any]
    | str
    | bytes
    | int
    | float
    | list[Any]
    | tuple[Any, ...]
    | set[Any]
    | frozenset[Any]
    | None
)
"""States that a run returns in their own type: TypedDicts, and values of graphs over one value.

Of any other class (dataclass, pydantic model, msgspec.Struct) a run returns a dict.
"""


class InvokableNode(Protocol):
    """A node that is an object with `invoke`, such as a compiled graph or a Runnable."""

    def invoke(self, *args: Any, **kwargs: Any) -> Any:
        """Return an update of the state."""
        ...


class AsyncInvokableNode(Protocol):
    """A node that is an object with `ainvoke`."""

    def ainvoke(self, *args: Any, **kwargs: Any) -> Any:
        """Return an awaitable update of the state."""
        ...


StateFunction = (
    Callable[Concatenate[OwnInputT, ...], Any] | Callable[Concatenate[dict[str, Any], ...], Any]
)
"""A plain or async function whose first parameter takes the state, or a dict.

Its other parameters (`config`, `runtime`, `store`, `writer`, ...) are injected by name.
"""

NodeAction = StateFunction[OwnInputT] | InvokableNode | AsyncInvokableNode
"""The action that `add_node` takes."""
