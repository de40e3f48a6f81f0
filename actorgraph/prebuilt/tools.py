"""Tools: plain functions or LangChain's tool objects, and the arguments that the graph injects.

The schema of a function's arguments comes from its signature. Arguments that the graph fills in are
marked in the annotations (`InjectedState`, `ToolRuntime` and others); the model neither sees nor
sets them.
"""

import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, Generic, Union, cast, get_origin

import msgspec

from actorgraph.errors import GraphBuildError
from actorgraph.internals import (
    BRIDGE,
    CURRENT,
    call_plain,
    class_annotations,
    form_of,
    function_annotations,
    has_sync_form,
    members_of,
    signature_of,
    unknown_in,
    walked,
)
from actorgraph.prebuilt.chat_messages import content_of, is_tool_message, tool_message
from actorgraph.prebuilt.tool_results import InvalidArguments, InvalidInjected
from actorgraph.types import Command

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    ContextT = TypeVar("ContextT", default=Any)
    StateT = TypeVar("StateT", default=Any)
else:
    from typing import TypeVar

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
        server_info: of the server; None outside a server.
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

    if not TYPE_CHECKING:

        def __class_getitem__(cls, parameters: Any) -> Any:
            """Accept the context alone, as in `ToolRuntime[Context]`."""
            named = parameters if isinstance(parameters, tuple) else (parameters, Any)
            return super().__class_getitem__(named)

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
        config: names of parameters for the config of the call's task.
        hidden: all of these names.
        optional: parameters with a default, for state keys that may be missing.
        langgraph_runtime: those of `runtime` that must be LangGraph's own class.
    """

    state: Mapping[str, str | None]
    store: tuple[str, ...] = ()
    runtime: tuple[str, ...] = ()
    call_id: tuple[str, ...] = ()
    config: tuple[str, ...] = ()
    hidden: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()
    langgraph_runtime: tuple[str, ...] = ()


def find_injected(hints: Mapping[str, Any], optional: frozenset[str]) -> InjectedParameters:
    """Read the marks in a tool's annotations.

    A parameter named `runtime` is a `ToolRuntime` regardless of its annotation, and one of the type
    `RunnableConfig` gets the config. Marks of LangGraph and LangChain are recognized by name: tools
    written for them work without importing them.
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
        config=named("RunnableConfig"),
        hidden=frozenset(found),
        optional=optional,
    )


_MARKS = (
    *("InjectedState", "InjectedStore", "InjectedToolCallId", "ToolRuntime", "RunnableConfig"),
    "InjectedToolArg",
)
"""The last hides a parameter only, and is a base of others."""


def _mark(hint: Any) -> tuple[str, Any] | None:
    """Return the name of the mark in an annotation, and the state key that it names."""
    members = members_of(hint)
    found: dict[str, Any] = {}
    for option in (*form_of(hint).extras, *members, *map(get_origin, members)):
        kind = option if isinstance(option, type) else type(option)
        for base in kind.__mro__:
            if base.__name__ in _MARKS:
                found.setdefault(base.__name__, getattr(option, "field", None))
                break
    return next(((name, found[name]) for name in _MARKS if name in found), None)


def _check_known(tool: str, parameter: str, hint: Any) -> None:
    """Refuse a parameter that may be injected or not, because its annotation can't be read.

    Raises:
        GraphBuildError: it can't; the model would see and set the parameter.
    """
    if (unknown := unknown_in(hint)) is not None:
        raise GraphBuildError(
            f"tool {tool!r} has the parameter {parameter!r}, whose annotation can't be resolved: "
            f"{unknown.why}",
            do=f"import {unknown} at run time, not for type checkers only, or define it at "
            "module level",
        )


@dataclass(frozen=True, slots=True)
class Tool:
    """A plain function as a tool.

    Attributes:
        name: the function's name, by which a model calls it.
        description: the function's docstring.
        function: sync (run in a worker thread) or async.
        arguments: a msgspec.Struct of the arguments that the model gives.
        injected: the parameters that the graph fills in.
        return_direct: whether an agent ends with the tool's answer.
    """

    name: str
    description: str
    function: Callable[..., Any]
    arguments: type[msgspec.Struct]
    injected: InjectedParameters
    return_direct: bool = False

    @property
    def args_schema(self) -> dict[str, Any]:
        """The JSON schema of the arguments that the model gives."""
        schema = msgspec.json.schema(self.arguments, schema_hook=_foreign_schema)
        definitions = dict(schema.get("$defs", {}))
        own = dict(definitions.pop(self.arguments.__name__, schema))
        own.pop("title", None)
        return {**own, "$defs": definitions} if definitions else own

    def validate(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Convert the model's arguments to the types of the signature.

        Raises:
            InvalidArguments: they don't fit.
        """
        try:
            made = msgspec.convert(dict(given), self.arguments, strict=False, dec_hook=_foreign)
        except msgspec.ValidationError as error:
            raise InvalidArguments(str(error)) from error
        sent = given.keys()
        fields = msgspec.structs.fields(self.arguments)
        values = {f.name: getattr(made, f.name) for f in fields}
        return {n: v for n, v in values.items() if n in sent or v is not msgspec.UNSET}

    def is_plain(self, *, blocking: bool) -> bool:
        """Whether a call runs no async code."""
        del blocking
        return not inspect.iscoroutinefunction(self.function)

    async def call(
        self, call: Mapping[str, Any], filled: Mapping[str, Any], like: Any, *, blocking: bool
    ) -> Any:
        """Run the function for one call.

        Returns: a ToolMessage, or the function's own Command, ToolMessage or list of these.
        """
        del blocking
        arguments = {**self.validate(_without_injected(call["args"], self.injected)), **filled}
        if inspect.iscoroutinefunction(self.function):
            output = await self.function(**arguments)
        else:
            work = functools.partial(self.function, **arguments)
            output = await call_plain(work)
            output = await output if inspect.isawaitable(output) else output
        output = BRIDGE.adapt(output)
        if isinstance(output, Command) or is_tool_message(output) or _is_results(output):
            return output
        return tool_message(like, call, content_of(output))


@dataclass(frozen=True, slots=True)
class ForeignTool:
    """A LangChain tool: anything with a name and `ainvoke` or `invoke`."""

    name: str
    given: Any
    injected: InjectedParameters

    @property
    def return_direct(self) -> bool:
        """Whether an agent ends with the tool's answer."""
        return bool(getattr(self.given, "return_direct", False))

    def is_plain(self, *, blocking: bool) -> bool:
        """Whether a call runs no async code; `blocking`: of a blocking call of the graph."""
        return has_sync_form(self.given) if blocking else _is_sync(self.given)

    async def call(
        self,
        call: Mapping[str, Any],
        filled: Mapping[str, Any],
        config: Mapping[str, Any],
        *,
        blocking: bool,
    ) -> Any:
        """Run the tool for one call; it validates the arguments and makes the ToolMessage."""
        arguments = {**_without_injected(call["args"], self.injected), **filled}
        request = {**call, "args": arguments, "type": "tool_call"}
        if not self.is_plain(blocking=blocking):
            return await self.given.ainvoke(request, dict(config))
        work = functools.partial(self.given.invoke, request, dict(config))
        return await call_plain(work)


def _is_sync(given: Any) -> bool:
    """Whether a tool has no async code of its own.

    LangChain's `ainvoke` would run it in asyncio's thread pool, which doesn't work under trio.
    """
    if not hasattr(given, "ainvoke"):
        return hasattr(given, "invoke")
    if getattr(given, "coroutine", None) is not None:
        return False
    own = getattr(type(given), "_arun", None)
    return hasattr(given, "invoke") and (
        getattr(given, "func", None) is not None or BRIDGE.is_tool_default(own)
    )


def tool_of(given: Any) -> Tool | ForeignTool:
    """Make a tool of a function or a tool object.

    Raises:
        GraphBuildError: it is neither a function nor a tool object, or has a parameter whose
            annotation can't be resolved.
    """
    if isinstance(given, (Tool, ForeignTool)):
        return given
    name = getattr(given, "name", None)
    if isinstance(name, str) and (hasattr(given, "ainvoke") or hasattr(given, "invoke")):
        return ForeignTool(name, given, _foreign_needs(name, given))
    if not callable(given):
        raise GraphBuildError(
            f"a tool must be a function or a tool object, got {given!r}",
            do="pass a function, or an object with `name` and `ainvoke`",
        )
    return _from_function(given)


def _from_function(function: Callable[..., Any]) -> Tool:
    name = getattr(function, "__name__", type(function).__name__)
    if name == "<lambda>":
        raise GraphBuildError(
            "a tool needs a name, and a lambda has none", do="write it as a function with `def`"
        )
    parameters = signature_of(function).parameters
    read = function_annotations(function)
    hints = {parameter: read.get(parameter, Any) for parameter in parameters}
    injected = find_injected(
        hints, frozenset(n for n, p in parameters.items() if p.default is not p.empty)
    )
    fields: list[Any] = []
    for parameter in parameters.values():
        if parameter.name in injected.hidden or parameter.kind in (
            parameter.VAR_KEYWORD,
            parameter.VAR_POSITIONAL,
        ):
            continue
        _check_known(name, parameter.name, hints[parameter.name])
        hint = _with_description(hints[parameter.name])
        if parameter.default is parameter.empty:
            fields.append((parameter.name, hint))
        else:  # UNSET means not given: the function's own default applies
            with_unset: Any = Union[hint, msgspec.UnsetType]  # noqa: UP007 - it may be any form
            fields.append((parameter.name, with_unset, msgspec.UNSET))
    arguments = msgspec.defstruct(name, fields, kw_only=True)
    return Tool(
        name,
        inspect.getdoc(function) or "",
        function,
        arguments,
        injected,
        bool(getattr(function, "return_direct", False)),
    )


def _with_description(hint: Any) -> Any:
    """Turn a text in an annotation into the parameter's description."""
    form = form_of(hint)
    is_union = len(members_of(form.typ)) > 1
    typ: Any = hint if is_union else form.typ  # what limits a member doesn't limit the others
    texts = [extra for extra in form.extras if isinstance(extra, str)]
    metas = [e for e in form.extras if isinstance(e, msgspec.Meta) and not is_union]
    if texts:
        metas.append(msgspec.Meta(description=texts[0]))
    for meta in metas:
        typ = Annotated[typ, meta]
    return typ


def _without_injected(arguments: Mapping[str, Any], injected: InjectedParameters) -> dict[str, Any]:
    """Drop values that the model gives for injected parameters: it must not choose them."""
    return {name: value for name, value in arguments.items() if name not in injected.hidden}


def _is_results(output: Any) -> bool:
    return isinstance(output, list) and any(
        isinstance(part, Command) or is_tool_message(part) for part in output
    )


def _foreign(kind: type, value: Any) -> Any:
    """Convert a value to a type that msgspec doesn't know, with pydantic's validation."""
    if hasattr(kind, "model_validate"):
        try:
            return getattr(kind, "model_validate")(value)  # noqa: B009 - a type that has it
        except ValueError as error:
            raise msgspec.ValidationError(str(error)) from error
    if isinstance(value, kind):
        return value
    raise msgspec.ValidationError(f"Expected `{kind.__name__}`, got `{type(value).__name__}`")


def _foreign_schema(kind: type) -> dict[str, Any]:
    return getattr(kind, "model_json_schema", dict)()


def _foreign_needs(name: str, given: Any) -> InjectedParameters:
    """Find a LangChain tool's injected parameters in its schema's and functions' annotations.

    A mark in either counts. Where the tool has a schema, that says what the model may set.

    Raises:
        GraphBuildError: an annotation can't be resolved.
    """
    schema = getattr(given, "args_schema", None)
    hints: dict[str, Any] = {}
    optional: set[str] = set()
    for function in _functions_of(given):
        hints |= {n: hint for n, hint in function_annotations(function).items() if n != "return"}
        parameters = signature_of(function).parameters.values()
        optional |= {p.name for p in parameters if p.default is not p.empty}
    fields = getattr(schema, "model_fields", None)
    seen = dict(hints) if schema is None else {}
    if isinstance(schema, type):
        found = class_annotations(schema)
        seen = {n: h for n, h in found.items() if fields is None or n in fields}
        optional = {n for n, info in (fields or {}).items() if not info.is_required()}
    hints |= {n: hint for n, hint in seen.items() if n not in hints or _mark(hints[n]) is None}
    needs = find_injected(hints, frozenset(optional))
    for parameter in seen.keys() - needs.hidden:
        _check_known(name, parameter, seen[parameter])
    theirs = tuple(name for name in needs.runtime if _has_other_runtime(hints[name]))
    return replace(needs, langgraph_runtime=theirs, config=())  # LangChain passes the config


def _functions_of(given: Any) -> list[Any]:
    """Return the functions that a LangChain tool calls: its `func`, or methods of its own class."""
    held = [getattr(given, name, None) for name in ("func", "coroutine")]
    methods = [getattr(given, name, None) for name in ("_run", "_arun")]
    own = [m for m in methods if not BRIDGE.is_tool_method(m)]
    return [function for function in (*held, *own) if callable(function)]


def types_of_tool(tool: Tool | ForeignTool) -> list[Any]:
    """List the annotations of a tool's arguments and result, but for those that are injected."""
    functions = [tool.function] if isinstance(tool, Tool) else _functions_of(tool.given)
    hints = [item for function in functions for item in function_annotations(function).items()]
    return [hint for name, hint in hints if name not in tool.injected.hidden]


def _has_other_runtime(hint: Any) -> bool:
    """Whether an annotation has another library's ToolRuntime, which pydantic demands."""
    return any(map(BRIDGE.is_tool_runtime, walked(hint)))


def fill_injected(
    injected: InjectedParameters,
    call: Mapping[str, Any],
    state: Any,
    runtime: ToolRuntime[Any, Any],
    key: str,
) -> dict[str, Any]:
    """Return the injected arguments of one call.

    Args:
        key: key of the messages; a bare list of messages is injected as a state with this key.
    Raises:
        InvalidInjected: the state lacks a key that the tool needs, or the graph has no store.
    """
    filled: dict[str, Any] = {}
    if injected.state:
        filled |= _from_state(injected, call, state, key)
    if injected.store and runtime.store is None:
        raise InvalidInjected(
            f"Cannot inject store into tool {call['name']!r}: the graph has none",
            do="compile your graph with a store: compile(store=...)",
        )
    filled |= dict.fromkeys(injected.store, runtime.store)
    filled |= dict.fromkeys(injected.runtime, runtime)
    filled |= dict.fromkeys(injected.config, runtime.config)
    if injected.langgraph_runtime:
        theirs = BRIDGE.export_tool_runtime(runtime)
        filled |= dict.fromkeys(injected.langgraph_runtime, theirs)
    return filled | dict.fromkeys(injected.call_id, call["id"])


def _from_state(
    injected: InjectedParameters, call: Mapping[str, Any], state: Any, key: str
) -> dict[str, Any]:
    if isinstance(state, list):
        state = {key: state}
    filled: dict[str, Any] = {}
    for parameter, wanted in injected.state.items():
        if wanted is None:
            filled[parameter] = state
        elif _has(state, wanted):
            filled[parameter] = _get(state, wanted)
        elif parameter in injected.optional:
            continue  # its own default
        elif wanted in _declared_keys():
            filled[parameter] = None  # a key that nothing has written yet
        else:
            raise InvalidInjected(
                f"tool {call['name']!r} needs {wanted!r} of the state, which doesn't have it",
                do="write that key first, give the parameter a default, or correct InjectedState()",
            )
    return filled


def _declared_keys() -> Collection[str]:
    """The keys of the running graph's state; () outside of a run."""
    scope = CURRENT.get(None)
    return () if scope is None else scope.run_context.state.plan.state_keys


def _has(state: Any, key: str) -> bool:
    return key in state if isinstance(state, Mapping) else hasattr(state, key)


def _get(state: Any, key: str) -> Any:
    if isinstance(state, Mapping):
        return cast("Mapping[str, Any]", state)[key]
    return getattr(state, key)
