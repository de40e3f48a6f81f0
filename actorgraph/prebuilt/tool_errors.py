"""Results of tools: failures as messages to the model, and the update of the node."""

import inspect
from collections.abc import Callable, Mapping
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from actorgraph.errors import ActorGraphError, GraphBuildError

FIX = " Please fix your mistakes."
Handling = bool | str | Callable[..., str] | type[Exception] | tuple[type[Exception], ...]
"""`handle_tool_errors`: see `ToolNode`."""


class InvalidArguments(ValueError):
    """The model's arguments don't fit the tool's parameters."""


class ToolInvocationError(ActorGraphError, ValueError):
    """The arguments that a model gave for a tool's call don't fit its parameters.

    Attributes:
        tool_name: the tool.
        tool_kwargs: the arguments.
        message: the text for the model.
    """

    def __init__(
        self,
        what: str,
        *,
        do: str,
        tool_name: str = "",
        tool_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(what, do=do)
        self.tool_name = tool_name
        self.tool_kwargs = dict(tool_kwargs or {})
        self.message = f"{what}\n Please fix the error and try again."


def invocation_error(
    call: Mapping[str, Any], error: Exception, hidden: frozenset[str]
) -> ToolInvocationError:
    """Error for a call whose arguments don't fit, without the injected ones.

    The model can't correct those, and their values may be secret.
    """
    told = str(error)
    errors: Callable[[], list[dict[str, Any]]] | None = getattr(error, "errors", None)
    if errors is not None:
        lines = [
            f"{'.'.join(map(str, part.get('loc', ())))}: {part.get('msg', '')}"
            for part in errors()
            if not part.get("loc") or part["loc"][0] not in hidden
        ]
        told = "\n".join(lines)
    name, arguments = call["name"], call["args"]
    return ToolInvocationError(
        f"Error invoking tool '{name}' with kwargs {arguments} with error:\n {told}",
        do="let the model correct its call: handle_tool_errors=True returns this to it",
        tool_name=name,
        tool_kwargs=arguments,
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
        return f"Error: {error!r}\n{FIX}"
    return handling(error)


def handled_types(handling: Handling) -> tuple[type[BaseException], ...]:
    """Return the exceptions that a setting handles.

    Raises:
        GraphBuildError: a handler's parameter is annotated with something else than exceptions.
    """
    if isinstance(handling, tuple):
        return handling
    if isinstance(handling, type):
        return (handling,)
    return (Exception,) if isinstance(handling, (bool, str)) else _annotated(handling)


def _annotated(handler: Callable[..., str]) -> tuple[type[BaseException], ...]:
    """Return the exceptions in the annotation of a handler's parameter; all if there is none."""
    parameters = list(inspect.signature(handler).parameters)
    try:
        hint = get_type_hints(handler).get(parameters[0]) if parameters else None
    except (NameError, TypeError):
        hint = None
    if hint is None or hint is Any:
        return (Exception,)
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    if not all(isinstance(kind, type) and issubclass(kind, Exception) for kind in kinds):
        raise GraphBuildError(
            f"the handler of tool errors must take an exception, got the annotation {hint!r}",
            do="annotate its parameter with an exception, or a union of exceptions",
        )
    return tuple(kinds)
