"""Results of tools: failures as messages to the model, and the update of the node."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from actorgraph.errors import ActorGraphError, GraphBuildError, InvalidUpdateError
from actorgraph.internals import (
    BRIDGE,
    function_annotations,
    members_of,
    signature_of,
    unknown_in,
)
from actorgraph.messages import REMOVE_ALL_MESSAGES
from actorgraph.prebuilt.chat_messages import content_of, is_tool_message, kind_of, replace_fields
from actorgraph.types import Command, Send

RETRY = " Please fix the error and try again."
INVALID_TOOL_NAME_ERROR_TEMPLATE = (
    "Error: {requested_tool} is not a valid tool, try one of [{available_tools}]."
)
TOOL_CALL_ERROR_TEMPLATE = "Error: {error}\n Please fix your mistakes."
TOOL_INVOCATION_ERROR_TEMPLATE = (
    "Error invoking tool '{tool_name}' with kwargs {tool_kwargs} with error:\n {error}\n" + RETRY
)
Handling = bool | str | Callable[..., str] | type[Exception] | tuple[type[Exception], ...]
"""`handle_tool_errors`: see `ToolNode`."""


class InvalidArguments(ValueError):
    """The model's arguments don't fit the tool's parameters."""


class InvalidInjected(InvalidUpdateError):
    """The graph lacks a value to inject, or it doesn't fit the tool: the model can't help."""


class ToolInvocationError(ActorGraphError, ValueError):
    """The arguments that a model gave for a tool's call don't fit its parameters.

    Attributes:
        tool_name: the tool.
        tool_kwargs: the arguments.
        message: the text for the model.
        filtered_errors: pydantic's errors of the model's arguments, without those of injected
            ones; None if something else than pydantic has refused them.
    """

    def __init__(
        self,
        what: str,
        *,
        do: str,
        tool_name: str = "",
        tool_kwargs: Mapping[str, Any] | None = None,
        filtered_errors: list[dict[str, Any]] | None = None,
    ) -> None:
        super().__init__(what, do=do)
        self.tool_name = tool_name
        self.tool_kwargs = dict(tool_kwargs or {})
        self.filtered_errors = filtered_errors
        self.message = f"{what}\n{RETRY}"


def invocation_error(
    call: Mapping[str, Any], error: Exception, hidden: frozenset[str]
) -> ToolInvocationError | InvalidInjected:
    """Error for a call whose arguments don't fit, without the injected ones.

    The model can't correct those, and their values may be secret. If only they don't fit, the
    error is `InvalidInjected`, which names them.
    """
    told, shown = str(error), None
    errors: Callable[[], list[dict[str, Any]]] | None = getattr(error, "errors", None)
    if errors is not None:
        parts = errors()
        shown = [p for p in parts if not p.get("loc") or p["loc"][0] not in hidden]
        if parts and not shown:
            return InvalidInjected(
                f"tool {call['name']!r} refuses what the graph injects: {_lines(parts)}",
                do="correct the annotations of these parameters, or the state that they are from",
            )
        told = _lines(shown)
    name, arguments = call["name"], call["args"]
    text = TOOL_INVOCATION_ERROR_TEMPLATE.format(tool_name=name, tool_kwargs=arguments, error=told)
    return ToolInvocationError(
        text.removesuffix(f"\n{RETRY}"),
        do="let the model correct its call: handle_tool_errors=True returns this to it",
        tool_name=name,
        tool_kwargs=arguments,
        filtered_errors=shown,
    )


def _lines(parts: Sequence[Mapping[str, Any]]) -> str:
    return "\n".join(
        f"{'.'.join(map(str, part.get('loc', ())))}: {part.get('msg', '')}" for part in parts
    )


def default_handling(error: Exception) -> str:
    """Reply to the model about invalid arguments; raise any other error."""
    if isinstance(error, ToolInvocationError):
        return error.message
    raise error


def error_reply(error: Exception, handling: Handling) -> str | None:
    """Return the reply to the model about a failure; None if the node must raise it.

    Raises:
        Exception: raised by a handler of the program.
    """
    if not handling or not isinstance(error, handled_types(handling)):
        return None
    if isinstance(handling, str):
        return handling
    if isinstance(handling, (bool, tuple, type)):
        return TOOL_CALL_ERROR_TEMPLATE.format(error=repr(error))
    return handling(error)


def handled_types(handling: Handling) -> tuple[type[BaseException], ...]:
    """Return the exceptions that a setting handles.

    Raises:
        GraphBuildError: a handler's parameter is annotated with something else than exceptions, or
            with a name that can't be resolved.
    """
    if isinstance(handling, tuple):
        return handling
    if isinstance(handling, type):
        return (handling,)
    return (Exception,) if isinstance(handling, (bool, str)) else _annotated(handling)


def _annotated(handler: Callable[..., str]) -> tuple[type[BaseException], ...]:
    """Return the exceptions in the annotation of a handler's parameter; all without one."""
    parameters = list(signature_of(handler).parameters)
    hint = function_annotations(handler).get(parameters[0]) if parameters else None
    if hint is None or hint is Any:
        return (Exception,)
    if (unknown := unknown_in(hint)) is not None:
        raise GraphBuildError(
            f"the handler of tool errors has an annotation that can't be resolved: {unknown.why}",
            do=f"import {unknown} at run time, not for type checkers only",
        )
    kinds = members_of(hint)
    if not all(isinstance(kind, type) and issubclass(kind, Exception) for kind in kinds):
        raise GraphBuildError(
            f"the handler of tool errors must take an exception, got the annotation {hint!r}",
            do="annotate its parameter with an exception, or a union of exceptions",
        )
    return kinds


def check_output(response: Any, call: Mapping[str, Any], *, key: str, listed: bool) -> Any:
    """Check a tool's result.

    Args:
        key: key of the messages in the state.
        listed: whether the node was given a bare list of messages.
    Returns: a ToolMessage, a Command, or a list of both.
    Raises:
        InvalidUpdateError: it is something else, or doesn't answer the call.
    """
    response = BRIDGE.adapt(response)
    if isinstance(response, Command):
        return _command(response, call, key=key, listed=listed, alone=True)
    if is_tool_message(response):
        content = content_of(response.content)
        return (
            response if content == response.content else replace_fields(response, content=content)
        )
    if isinstance(response, list):
        parts = cast("list[Any]", response)
        if all(isinstance(part, Command) or is_tool_message(part) for part in parts):
            return _several(parts, call, key=key, listed=listed)
        raise InvalidUpdateError(
            f"Tool {call['name']} returned a list with invalid element types: expected all "
            "Command or ToolMessage",
            do="return Commands and ToolMessages only, or one plain value",
        )
    raise InvalidUpdateError(
        f"Tool {call['name']} returned unexpected type: {type(response)}",
        do="return a ToolMessage or a Command from tool objects",
    )


def _several(parts: list[Any], call: Mapping[str, Any], *, key: str, listed: bool) -> list[Any]:
    answers = sum(_answers(part, call, key) for part in parts)
    if answers != 1:
        raise InvalidUpdateError(
            f"Tool {call['name']} returned a list with {answers} messages bound to tool_call_id "
            f"{call['id']!r}; expected exactly one terminating ToolMessage.",
            do="answer the call once: in a ToolMessage, or in one Command's messages",
        )
    return [
        _command(part, call, key=key, listed=listed, alone=False)
        if isinstance(part, Command)
        else check_output(part, call, key=key, listed=listed)
        for part in parts
    ]


def _answers(part: Any, call: Mapping[str, Any], key: str) -> int:
    """Count the messages in a part of a result that answer the call."""
    if isinstance(part, Command):
        update = part.update
        messages = update.get(key, ()) if isinstance(update, dict) else update or ()
        return sum(_answers(message, call, key) for message in messages)
    return int(is_tool_message(part) and part.tool_call_id == call["id"])


def _command(
    command: Command[Any], call: Mapping[str, Any], *, key: str, listed: bool, alone: bool
) -> Command[Any]:
    """Check a tool's Command and set the tool's name on its messages.

    Args:
        alone: whether it is the whole result, so that it must answer the call itself.
    """
    update = command.update
    if isinstance(update, dict) and listed:
        raise _wrong_update(call, update, f"a dict only when the node gets a state with {key!r}")
    if isinstance(update, list) and not listed:
        raise _wrong_update(call, update, "a list only when the node gets a list of messages")
    if not isinstance(update, (dict, list)):
        return command
    state = {key: update} if isinstance(update, list) else cast("dict[str, Any]", update)
    given = cast("list[Any]", state.get(key, []))
    if [kind_of(message) for message in given] == ["remove"] and given[0].id == REMOVE_ALL_MESSAGES:
        return command
    messages = [
        replace_fields(m, name=call["name"]) if _answers(m, call, key) and m.name is None else m
        for m in given
    ]
    if alone and command.graph is None and not any(_answers(m, call, key) for m in messages):
        raise InvalidUpdateError(
            f"Expected to have a matching ToolMessage in Command.update for tool '{call['name']}', "
            f"got: {messages}. Every call of a tool needs its answer among the messages.",
            do="add ToolMessage(text, tool_call_id=...) to the Command's messages; a parameter "
            "Annotated[str, InjectedToolCallId] has the id",
        )
    if listed:
        return replace(command, update=messages)
    return replace(command, update={**state, key: messages} if key in state else state)


def _wrong_update(call: Mapping[str, Any], update: Any, when: str) -> InvalidUpdateError:
    return InvalidUpdateError(
        f"Tools can provide {when} in Command.update; got {update!r} from tool '{call['name']}'",
        do="make the update of the form that the node was given",
    )


def combine_outputs(outputs: Sequence[Any], *, key: str, listed: bool) -> Any:
    """Combine the results of all tools, in the order of the calls, into the node's return value.

    Commands for the parent graph that only have Sends become one.
    """
    flat: list[Any] = []
    for output in outputs:
        flat += output if isinstance(output, list) else [output]
    if not any(isinstance(output, Command) for output in flat):
        return flat if listed else {key: flat}
    parts: list[Any] = []
    sends: list[Send] = []
    for output in flat:
        if not isinstance(output, Command):
            parts.append([output] if listed else {key: [output]})
        elif _only_sends(output):
            sends += cast("list[Send]", output.goto)
        else:
            parts.append(output)
    return [*parts, Command(graph=Command.PARENT, goto=sends)] if sends else parts


def _only_sends(command: Command[Any]) -> bool:
    goto = command.goto
    return (
        command.graph == Command.PARENT
        and isinstance(goto, list)
        and all(isinstance(target, Send) for target in goto)
    )
