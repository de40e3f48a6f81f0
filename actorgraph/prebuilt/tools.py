"""Tools: plain functions with a schema from their signature, or LangChain's tool objects."""

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_origin

import anyio.to_thread
import msgspec

from actorgraph.errors import GraphBuildError
from actorgraph.prebuilt.chat import content_of, is_tool_message, tool_message
from actorgraph.prebuilt.injected import Needs, hints_of, needs_of
from actorgraph.prebuilt.tool_errors import InvalidArguments
from actorgraph.runtime.calls import thread_limiter
from actorgraph.values.commands import Command
from actorgraph.values.interop import from_langgraph


@dataclass(frozen=True, slots=True)
class Tool:
    """A plain function as a tool.

    Attributes:
        name: what a model calls it by: the function's name.
        description: its docstring.
        function: sync (run in a worker thread) or async.
        arguments: a msgspec.Struct of what the model gives.
        needs: what the graph fills in.
        return_direct: whether an agent ends with the tool's answer.
    """

    name: str
    description: str
    function: Callable[..., Any]
    arguments: type[msgspec.Struct]
    needs: Needs
    return_direct: bool = False

    @property
    def args_schema(self) -> dict[str, Any]:
        """The JSON schema of what the model gives."""
        schema = msgspec.json.schema(self.arguments, schema_hook=_foreign_schema)
        definitions = dict(schema.get("$defs", {}))
        own = dict(definitions.pop(self.arguments.__name__, schema))
        own.pop("title", None)
        return {**own, "$defs": definitions} if definitions else own

    def checked(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The model's arguments in the types of the signature.

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
        """Run it for one call.

        Returns: a ToolMessage; or a Command, a list, or a ToolMessage that it returned itself.
        """
        arguments = {**self.checked(_visible(call["args"], self.needs)), **filled}
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
    needs: Needs

    @property
    def return_direct(self) -> bool:
        """Whether an agent ends with the tool's answer."""
        return bool(getattr(self.given, "return_direct", False))

    async def call(
        self, call: Mapping[str, Any], filled: Mapping[str, Any], config: Mapping[str, Any]
    ) -> Any:
        """Run it for one call: it checks its arguments, and makes the ToolMessage."""
        arguments = {**_visible(call["args"], self.needs), **filled}
        request = {**call, "args": arguments, "type": "tool_call"}
        if not _is_sync(self.given):
            return await self.given.ainvoke(request, dict(config))
        work = functools.partial(self.given.invoke, request, dict(config))
        return await anyio.to_thread.run_sync(
            work, abandon_on_cancel=True, limiter=thread_limiter()
        )


def _is_sync(given: Any) -> bool:
    """Whether a tool has no async code of its own.

    LangChain would run it in a thread of asyncio's, which there are none of under trio.
    """
    if not hasattr(given, "ainvoke"):
        return hasattr(given, "invoke")
    if getattr(given, "coroutine", None) is not None:
        return False
    own = getattr(type(given), "_arun", None)
    inherited = getattr(own, "__module__", "") == "langchain_core.tools.base"
    return hasattr(given, "invoke") and (getattr(given, "func", None) is not None or inherited)


def tool_of(given: Any) -> Tool | ForeignTool:
    """A tool made of what a program passes for one.

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
            f"{given!r} is no tool", do="pass a function, or an object with `name` and `ainvoke`"
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
    needs = needs_of(
        {n: h for n, h in hints.items() if n in parameters},
        frozenset(n for n, p in parameters.items() if p.default is not p.empty),
    )
    fields: list[Any] = []
    for parameter in parameters.values():
        if parameter.name in needs.hidden or parameter.kind in (
            parameter.VAR_KEYWORD,
            parameter.VAR_POSITIONAL,
        ):
            continue
        hint = _described(hints[parameter.name])
        if parameter.default is parameter.empty:
            fields.append((parameter.name, hint))
        else:  # left out, the function's own default counts
            fields.append((parameter.name, hint | msgspec.UnsetType, msgspec.UNSET))
    arguments = msgspec.defstruct(name, fields, kw_only=True)
    return Tool(
        name,
        inspect.getdoc(function) or "",
        function,
        arguments,
        needs,
        bool(getattr(function, "return_direct", False)),
    )


def _described(hint: Any) -> Any:
    """An annotation in which a text is the parameter's description."""
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


def _visible(arguments: Mapping[str, Any], needs: Needs) -> dict[str, Any]:
    """What the model may set: a value that it gives for a hidden argument is dropped."""
    return {name: value for name, value in arguments.items() if name not in needs.hidden}


def _is_results(output: Any) -> bool:
    return isinstance(output, list) and any(
        isinstance(part, Command) or is_tool_message(part) for part in output
    )


def _foreign(kind: type, value: Any) -> Any:
    """Values of types that msgspec doesn't know, by their own validation (pydantic's)."""
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


def _foreign_needs(given: Any) -> Needs:
    """What a LangChain tool wants filled in, from its schema's and its function's annotations."""
    schema = getattr(given, "args_schema", None)
    function = getattr(given, "func", None) or getattr(given, "coroutine", None)
    hints = hints_of(function) if function else {}
    fields = getattr(schema, "model_fields", {})
    if isinstance(schema, type):
        hints |= hints_of(schema)
    optional = frozenset(name for name, info in fields.items() if not info.is_required())
    return needs_of(hints, optional)
