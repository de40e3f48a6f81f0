"""Make tools of plain functions and of LangChain's tool objects."""

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_origin

import anyio.to_thread
import msgspec

from actorgraph.errors import GraphBuildError
from actorgraph.prebuilt.chat import content_of, is_tool_message, tool_message
from actorgraph.prebuilt.injected import InjectedParameters, find_injected, hints_of
from actorgraph.prebuilt.tool_errors import InvalidArguments
from actorgraph.runtime.calls import thread_limiter
from actorgraph.values.commands import Command
from actorgraph.values.interop import from_langgraph


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

    async def call(self, call: Mapping[str, Any], filled: Mapping[str, Any], like: Any) -> Any:
        """Run the function for one call.

        Returns: a ToolMessage, or the function's own Command, ToolMessage or list of these.
        """
        arguments = {**self.validate(_without_injected(call["args"], self.injected)), **filled}
        if inspect.iscoroutinefunction(self.function):
            output = await self.function(**arguments)
        else:
            work = functools.partial(self.function, **arguments)
            output = await anyio.to_thread.run_sync(
                work, abandon_on_cancel=True, limiter=thread_limiter()
            )
            output = await output if inspect.isawaitable(output) else output
        output = from_langgraph(output)
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

    async def call(
        self, call: Mapping[str, Any], filled: Mapping[str, Any], config: Mapping[str, Any]
    ) -> Any:
        """Run the tool for one call; it validates the arguments and makes the ToolMessage."""
        arguments = {**_without_injected(call["args"], self.injected), **filled}
        request = {**call, "args": arguments, "type": "tool_call"}
        if not _is_sync(self.given):
            return await self.given.ainvoke(request, dict(config))
        work = functools.partial(self.given.invoke, request, dict(config))
        return await anyio.to_thread.run_sync(
            work, abandon_on_cancel=True, limiter=thread_limiter()
        )


def _is_sync(given: Any) -> bool:
    """Whether a tool has no async code of its own.

    LangChain's `ainvoke` would run it in asyncio's thread pool, which doesn't work under trio.
    """
    if not hasattr(given, "ainvoke"):
        return hasattr(given, "invoke")
    if getattr(given, "coroutine", None) is not None:
        return False
    own = getattr(type(given), "_arun", None)
    inherited = getattr(own, "__module__", "") == "langchain_core.tools.base"
    return hasattr(given, "invoke") and (getattr(given, "func", None) is not None or inherited)


def tool_of(given: Any) -> Tool | ForeignTool:
    """Make a tool of a function or a tool object.

    Raises:
        GraphBuildError: it is neither a function nor a tool object.
    """
    if isinstance(given, (Tool, ForeignTool)):
        return given
    name = getattr(given, "name", None)
    if isinstance(name, str) and (hasattr(given, "ainvoke") or hasattr(given, "invoke")):
        return ForeignTool(name, given, _foreign_needs(given))
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
    hints = hints_of(function)
    parameters = inspect.signature(function).parameters
    for bare in parameters.keys() - hints.keys():
        hints[bare] = Any
    injected = find_injected(
        {n: h for n, h in hints.items() if n in parameters},
        frozenset(n for n, p in parameters.items() if p.default is not p.empty),
    )
    fields: list[Any] = []
    for parameter in parameters.values():
        if parameter.name in injected.hidden or parameter.kind in (
            parameter.VAR_KEYWORD,
            parameter.VAR_POSITIONAL,
        ):
            continue
        hint = _with_description(hints[parameter.name])
        if parameter.default is parameter.empty:
            fields.append((parameter.name, hint))
        else:  # UNSET means not given: the function's own default applies
            fields.append((parameter.name, hint | msgspec.UnsetType, msgspec.UNSET))
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
    if get_origin(hint) is not Annotated:
        return hint
    typ, *extras = get_args(hint)
    texts = [extra for extra in extras if isinstance(extra, str)]
    metas = [extra for extra in extras if isinstance(extra, msgspec.Meta)]
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


def _foreign_needs(given: Any) -> InjectedParameters:
    """Find a LangChain tool's injected parameters in its schema's and function's annotations."""
    schema = getattr(given, "args_schema", None)
    function = getattr(given, "func", None) or getattr(given, "coroutine", None)
    hints = hints_of(function) if function else {}
    fields = getattr(schema, "model_fields", {})
    if isinstance(schema, type):
        hints |= hints_of(schema)
    optional = frozenset(name for name, info in fields.items() if not info.is_required())
    return find_injected(hints, optional)
