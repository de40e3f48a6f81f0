"""Tools: plain functions or LangChain's tool objects, and the arguments that the graph injects.

The schema of a function's arguments comes from its signature. Arguments that the graph fills in are
marked in the annotations (`InjectedState`, `ToolRuntime` and others); the model neither sees nor
sets them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Generic, TypeVar, get_args, get_origin, get_type_hints

ContextT = TypeVar("ContextT")
StateT = TypeVar("StateT")


class InjectedArgument:
    """Base of the marks in `Annotated[type, mark]` that hide an argument from the model."""


class InjectedState(InjectedArgument):
    """`Annotated[S, InjectedState]` injects the state; `InjectedState("key")` one of its keys.

    Args:
        field: the key; default: the whole state.
    """

    def __init__(self, field: str | None = None) -> None:
        self.field = field


class InjectedStore(InjectedArgument):
    """`Annotated[BaseStore, InjectedStore()]` injects the graph's store."""


class InjectedToolCallId(InjectedArgument):
    """`Annotated[str, InjectedToolCallId]` injects the id of the tool call."""


@dataclass
class ToolRuntime(InjectedArgument, Generic[ContextT, StateT]):
    """Everything that a tool can have injected: `def tool(query: str, runtime: ToolRuntime)`.

    Attributes:
        state: the state that the node was given.
        context: the run's `context=`.
        config: the task's config.
        stream_writer: sends custom chunks.
        tool_call_id: the id of this call.
        store: the graph's store, or None.
        tools: the tools of the node.
        execution_info: of the task; None outside a run.
        server_info: of the server; None where there is none.
        emit: receives parts of the output; use `emit_output_delta`.
        stores: name -> store of the graph's registry.
    """

    state: StateT
    context: ContextT
    config: dict[str, Any]
    stream_writer: Callable[[Any], None]
    tool_call_id: str | None
    store: Any = None
    tools: list[Any] = field(default_factory=list[Any])
    execution_info: Any = None
    server_info: Any = None
    emit: Callable[[Any], None] | None = None
    stores: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def emit_output_delta(self, delta: Any) -> None:
        """Send a part of the tool's output to the readers of `stream_mode="tools"`."""
        if self.emit is not None:
            self.emit(delta)


@dataclass(frozen=True, slots=True)
class InjectedParameters:
    """The injected parameters of one tool.

    Attributes:
        state: parameter -> key of the state; None for the whole state.
        store: names of parameters for the store.
        runtime: names of parameters for the `ToolRuntime`.
        call_id: names of parameters for the id of the call.
        hidden: all of these names.
        optional: parameters with a default, for state keys that may be missing.
    """

    state: Mapping[str, str | None]
    store: tuple[str, ...] = ()
    runtime: tuple[str, ...] = ()
    call_id: tuple[str, ...] = ()
    hidden: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()


def find_injected(hints: Mapping[str, Any], optional: frozenset[str]) -> InjectedParameters:
    """Read the marks in a tool's annotations.

    A parameter named `runtime` is a `ToolRuntime` whatever its annotation. Marks of LangGraph and
    LangChain are recognized by name, so that tools written for them work without importing them.
    """
    found: dict[str, tuple[str, Any]] = {}
    for name, hint in hints.items():
        if name != "return" and (mark := _mark(hint)):
            found[name] = mark
    if "runtime" in hints:
        found["runtime"] = ("ToolRuntime", None)

    def named(kind: str) -> tuple[str, ...]:
        return tuple(name for name, (mark, _) in found.items() if mark == kind)

    state = {name: key for name, (mark, key) in found.items() if mark == "InjectedState"}
    return InjectedParameters(
        state,
        store=named("InjectedStore"),
        runtime=named("ToolRuntime"),
        call_id=named("InjectedToolCallId"),
        hidden=frozenset(found),
        optional=optional,
    )


_MARKS = ("InjectedState", "InjectedStore", "InjectedToolCallId", "ToolRuntime", "InjectedToolArg")


def _mark(hint: Any) -> tuple[str, Any] | None:
    """Return the name of the mark in an annotation, and the state key that it names."""
    options = [hint, get_origin(hint)]
    options += get_args(hint) if get_origin(hint) is not Annotated else get_args(hint)[1:]
    for option in options:
        kind = option if isinstance(option, type) else type(option)
        for base in kind.__mro__:
            if base.__name__ in _MARKS:
                return base.__name__, getattr(option, "field", None)
    return None


def hints_of(function: Any) -> dict[str, Any]:
    """Return a function's annotations with marks; unresolved ones if resolving fails."""
    try:
        return get_type_hints(function, include_extras=True)
    except Exception:  # noqa: BLE001 - evaluating a program's annotation may raise anything
        return dict(getattr(function, "__annotations__", {}))
