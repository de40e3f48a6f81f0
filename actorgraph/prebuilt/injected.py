"""Arguments that a tool gets from the graph, not from the model: how a tool asks for them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Generic, TypeVar, get_args, get_origin, get_type_hints

ContextT = TypeVar("ContextT")
StateT = TypeVar("StateT")


class InjectedArgument:
    """Base of the marks in `Annotated[type, mark]` that keep an argument from the model."""


class InjectedState(InjectedArgument):
    """`Annotated[S, InjectedState]` is the whole state; `InjectedState("key")` one of its keys.

    Args:
        field: the key; default the whole state.
    """

    def __init__(self, field: str | None = None) -> None:
        self.field = field


class InjectedStore(InjectedArgument):
    """`Annotated[BaseStore, InjectedStore()]` is the store that the graph was compiled with."""


class InjectedToolCallId(InjectedArgument):
    """`Annotated[str, InjectedToolCallId]` is the id of the call that runs the tool."""


@dataclass
class ToolRuntime(InjectedArgument, Generic[ContextT, StateT]):
    """Everything that a tool can ask for: `def tool(query: str, runtime: ToolRuntime)`.

    Attributes:
        state: the state that the node was given.
        context: the run's `context=`.
        config: the task's config.
        stream_writer: sends custom chunks.
        tool_call_id: the id of this call.
        store: the graph's store, or None. stores: name -> store of its registry.
        tools: the tools of the node.
        execution_info, server_info: of the task and the server; None where there is none.
        emit: takes parts of the output; use `emit_output_delta`.
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
class Needs:
    """What one tool wants filled in.

    Attributes:
        state: parameter -> key of the state; None for the whole.
        store, runtime, call_id: names of parameters.
        hidden: all of them: the model neither sees nor sets these.
        optional: parameters with a default, for state keys that may be missing.
    """

    state: Mapping[str, str | None]
    store: tuple[str, ...] = ()
    runtime: tuple[str, ...] = ()
    call_id: tuple[str, ...] = ()
    hidden: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()


def needs_of(hints: Mapping[str, Any], optional: frozenset[str]) -> Needs:
    """Read the marks in a tool's annotations.

    A parameter named `runtime` is a `ToolRuntime` whatever its annotation. Marks of LangGraph and
    LangChain count by their names, so that tools written for them work.
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
    return Needs(
        state,
        store=named("InjectedStore"),
        runtime=named("ToolRuntime"),
        call_id=named("InjectedToolCallId"),
        hidden=frozenset(found),
        optional=optional,
    )


_MARKS = ("InjectedState", "InjectedStore", "InjectedToolCallId", "ToolRuntime", "InjectedToolArg")


def _mark(hint: Any) -> tuple[str, Any] | None:
    """The name of the mark in an annotation, and the key of the state that it wants."""
    options = [hint, get_origin(hint)]
    options += get_args(hint) if get_origin(hint) is not Annotated else get_args(hint)[1:]
    for option in options:
        kind = option if isinstance(option, type) else type(option)
        for base in kind.__mro__:
            if base.__name__ in _MARKS:
                return base.__name__, getattr(option, "field", None)
    return None


def hints_of(function: Any) -> dict[str, Any]:
    """The annotations of a function, marks included; nothing if they can't be resolved."""
    try:
        return get_type_hints(function, include_extras=True)
    except Exception:  # noqa: BLE001 - whatever breaks a user's annotation
        return dict(getattr(function, "__annotations__", {}))
