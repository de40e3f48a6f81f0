"""Call any chat model the same way: LangChain's, objects with `ainvoke` or `invoke`, functions."""

import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, cast

import msgspec

from actorgraph.errors import GraphBuildError, InvalidUpdateError, MissingExtraError
from actorgraph.internals import BRIDGE, CURRENT, OperationSpan, call_plain, signature_of
from actorgraph.internals import injected_parameters as injected
from actorgraph.internals import injected_values as values_of
from actorgraph.prebuilt.chat_messages import kind_of, message_module, messages_of
from actorgraph.prebuilt.shown_tools import shown_tool

Prompt = Callable[[Any], Awaitable[list[Any]]]


async def maybe_threaded(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function of the program: an async one directly, a sync one in a worker thread."""
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - not a test
    ):
        return await function(*arguments)
    work = functools.partial(function, *arguments)
    output = await call_plain(work)
    return await output if inspect.isawaitable(output) else output


async def ask_model(model: Any, messages: Sequence[Any], config: Mapping[str, Any]) -> Any:
    """Call a model with a conversation; returns its message."""
    if _reports(model):
        return await _ask(model, messages, config)
    names = (getattr(model, attribute, None) for attribute in _NAMES)
    name = next((found for found in names if isinstance(found, str)), "")
    with OperationSpan("chat", name, {"request.model": name or None}) as span:
        message = await _ask(model, messages, config)
        span.answered(message)
        return message


_NAMES = ("model_name", "model")


def _reports(model: Any) -> bool:
    """Whether calls of a model are reported by LangChain's callbacks: its own, or in a function."""
    runnable = BRIDGE.loaded_runnable()
    is_function = not hasattr(model, "ainvoke") and not hasattr(model, "invoke")
    return runnable is not None and (is_function or isinstance(model, runnable))


async def _ask(model: Any, messages: Sequence[Any], config: Mapping[str, Any]) -> Any:
    if hasattr(model, "ainvoke"):
        return await model.ainvoke(list(messages), dict(config))
    if hasattr(model, "invoke"):
        return await maybe_threaded(model.invoke, list(messages), dict(config))
    return await maybe_threaded(model, list(messages))


def is_dynamic(model: Any) -> bool:
    """Whether it is a function of `(state, runtime)` that chooses the model for each step.

    Raises:
        GraphBuildError: it is neither a model nor a function.
    """
    if isinstance(model, str) or hasattr(model, "invoke") or hasattr(model, "ainvoke"):
        return False
    if not callable(model):
        raise GraphBuildError(
            f"model must be a chat model or a function, got {model!r}",
            do="pass a LangChain model, a function of the messages, or one of (state, runtime)",
        )
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    required = [
        p
        for p in signature_of(model).parameters.values()
        if p.kind in kinds and p.default is p.empty
    ]
    return len(required) >= 2


def model_named(name: str) -> Any:
    """Make the LangChain model for a name such as "openai:gpt-5".

    Raises:
        MissingExtraError: LangChain isn't installed.
    """
    try:
        return BRIDGE.named_model(name)
    except ImportError as error:
        raise MissingExtraError(
            f"model name {name!r} needs LangChain, which isn't installed",
            do="pip install langchain and the provider's package, or pass a model object",
        ) from error


def with_tools(model: Any, tools: Sequence[Any]) -> Any:
    """Bind the tools to a model with its `bind_tools`, if it has one and isn't bound yet.

    Raises:
        GraphBuildError: it is bound to other tools.
    """
    if not needs_tools(model, tools) or not tools or not hasattr(model, "bind_tools"):
        return model
    return model.bind_tools([shown_tool(tool) for tool in tools])


def needs_tools(model: Any, tools: Sequence[Any]) -> bool:
    """Whether a model isn't bound to tools yet.

    Raises:
        GraphBuildError: it is bound, to other tools.
    """
    bound = _bound_names(model)
    if bound is None:
        return True
    if missing := {_tool_name(tool) for tool in tools} - bound:
        raise GraphBuildError(
            f"Missing tools {sorted(missing)} in the model.bind_tools()",
            do="bind the same tools that you pass, or pass the model without binding it",
        )
    return False


def _bound_names(model: Any) -> set[str] | None:
    """Return the names of the tools that a LangChain model is bound to; None if it isn't."""
    for step in [*getattr(model, "steps", ()), model]:
        given = getattr(step, "kwargs", None)
        if isinstance(given, Mapping) and "tools" in given:
            return {_tool_name(tool) for tool in cast("Mapping[str, Any]", given)["tools"]}
    return None


def _tool_name(tool: Any) -> str:
    if isinstance(tool, Mapping):
        tool = cast("Mapping[str, Any]", tool)
        return str(tool.get("function", tool).get("name", tool.get("type", "")))
    return getattr(tool, "name", "")


def make_prompt(given: Any) -> Prompt:
    """Make the function that turns a state into the model's input.

    Args:
        given: None for the messages as they are; a text or a system message to put before them; or
            a function of the state, or an object with `ainvoke`, that returns the input. A function
            may have a node's other parameters too: `config`, `store`, `runtime`, `writer`.
    Raises:
        GraphBuildError: it is none of these.
    """
    if given is None or isinstance(given, str) or kind_of(given) == "system":

        async def before(state: Any) -> list[Any]:
            messages = messages_of(state, "messages")
            if given is None:
                return messages
            made = (
                message_module(messages).SystemMessage(content=given)
                if isinstance(given, str)
                else given
            )
            return [made, *messages]

        return before
    is_object = hasattr(given, "ainvoke") or hasattr(given, "invoke")
    function = next((getattr(given, n) for n in ("ainvoke", "invoke") if hasattr(given, n)), given)
    if not callable(function):
        raise GraphBuildError(
            f"Got unexpected type for `prompt`: {type(given)}",
            do="pass a text, a system message, or a function of the state",
        )

    names = () if is_object else injected(function)

    async def custom(state: Any) -> list[Any]:
        scope = CURRENT.get(None)
        if names and scope is not None:
            filled = functools.partial(function, **values_of(names, scope))
            made = await maybe_threaded(filled, state)
        else:
            made = await maybe_threaded(function, state)
        if hasattr(made, "ainvoke"):  # a template, as LangChain makes of `message + messages`
            made = await made.ainvoke(state)
        return made.to_messages() if hasattr(made, "to_messages") else made

    return custom


async def ask_structured(
    model: Any, messages: Sequence[Any], response_format: Any, config: Mapping[str, Any]
) -> Any:
    """Call a model for a structured response.

    A model without `with_structured_output` is called as it is, and its text is read as JSON.

    Args:
        response_format: a schema, or a pair of a system text and a schema.
    Raises:
        InvalidUpdateError: the text doesn't fit the schema.
    """
    schema = response_format
    if isinstance(response_format, tuple):
        text, schema = cast("tuple[str, Any]", response_format)
        messages = [message_module(messages).SystemMessage(content=text), *messages]
    model = _unbound(model)
    if hasattr(model, "with_structured_output"):
        return await ask_model(model.with_structured_output(schema), messages, config)
    content = (await ask_model(model, messages, config)).content
    try:
        if hasattr(schema, "model_validate_json"):
            return schema.model_validate_json(content)
        return msgspec.json.decode(content, type=Any if isinstance(schema, dict) else schema)
    except ValueError as error:
        raise InvalidUpdateError(
            f"the model's answer doesn't fit the response format: {error}",
            do="ask for JSON in the prompt, or use a model that has with_structured_output()",
        ) from error


def _unbound(model: Any) -> Any:
    """Return a LangChain model without its tools: a bound one has no `with_structured_output`."""
    for step in getattr(model, "steps", ()):
        if hasattr(step, "bound") or hasattr(step, "with_structured_output"):
            model = step
            break
    return getattr(model, "bound", model)
