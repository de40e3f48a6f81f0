"""The base of all errors: each says what happened and what to do about it."""

from collections.abc import Sequence
from enum import Enum
from typing import Any


class ErrorCode(Enum):
    """LangGraph's error codes; programs compare them with `error.code`."""

    GRAPH_RECURSION_LIMIT = "GRAPH_RECURSION_LIMIT"
    INVALID_CONCURRENT_GRAPH_UPDATE = "INVALID_CONCURRENT_GRAPH_UPDATE"
    INVALID_GRAPH_NODE_RETURN_VALUE = "INVALID_GRAPH_NODE_RETURN_VALUE"
    MULTIPLE_SUBGRAPHS = "MULTIPLE_SUBGRAPHS"
    INVALID_CHAT_HISTORY = "INVALID_CHAT_HISTORY"


class ActorGraphError(Exception):
    """Base of all errors that the library raises on purpose.

    Args:
        what: what happened, naming the culprit.
        do: what the reader can do about it.
        code: LangGraph's code, where it has one.
    """

    def __init__(self, what: str, *, do: str, code: ErrorCode | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.do = do
        self.code = code

    def __str__(self) -> str:
        return f"{self.what}\n  Do this: {self.do}"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.what, self.do), dict(self.__dict__)


def _rebuild(kind: type[ActorGraphError], what: str, do: str) -> ActorGraphError:
    return kind(what, do=do)


def did_you_mean(name: object, choices: Sequence[str]) -> str:
    """Return a hint such as `did you mean 'answer'?`, or the choices when none is similar."""
    from difflib import get_close_matches  # here, because few programs need it

    choices = [choice for choice in choices if choice != _START]
    longer = [choice for choice in choices if choice.startswith(f"{name}_")]  # `delay`: `delay_s`
    near = longer[:2] or get_close_matches(str(name), choices, n=2)
    if near:
        return "did you mean " + " or ".join(repr(n) for n in near) + "?"
    if not choices:
        return "no name of that kind is defined"
    named = ", ".join(map(repr, choices[:CHOICES_MAX]))
    rest = len(choices) - CHOICES_MAX
    return f"the choices are {named}" + (f" and {rest} more" if rest > 0 else "")


_START = "__start__"
"""The name of a graph's input: no program means it."""

CHOICES_MAX = 10
"""The choices that a text names; a longer list hides the message."""
