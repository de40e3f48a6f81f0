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
    choices = [choice for choice in choices if choice != _START]
    text = str(name)
    longer = [choice for choice in choices if choice.startswith(f"{text}_")]  # `delay`: `delay_s`
    near = longer[:2] or _similar(text, choices)[:2]
    if near:
        return "did you mean " + " or ".join(repr(n) for n in near) + "?"
    if not choices:
        return "no name of that kind is defined"
    named = ", ".join(map(repr, choices[:CHOICES_MAX]))
    rest = len(choices) - CHOICES_MAX
    return f"the choices are {named}" + (f" and {rest} more" if rest > 0 else "")


def _similar(name: str, choices: Sequence[str]) -> list[str]:
    """The choices that a name may be a misspelling of, the nearest first.

    One slip for each four characters: of a word that has more another word is as likely as any.
    """
    most = max(1, len(name) // CHARACTERS_PER_SLIP) if len(name) > 1 else 0
    slips = ((_slips(name.lower(), choice.lower(), most), choice) for choice in choices)
    return [choice for count, choice in sorted(slips, key=lambda each: each[0]) if count <= most]


def _slips(one: str, other: str, most: int) -> int:
    """Count the characters to add, drop, replace or swap with the next between two texts.

    Returns: more than `most` if there are more.
    Source: the restricted edit distance of Damerau (1964) and Levenshtein (1966).
    """
    if abs(len(one) - len(other)) > most:
        return most + 1
    rows = [[*range(len(other) + 1)]]
    for i, a in enumerate(one, 1):
        row = [i]
        for j, b in enumerate(other, 1):
            cost = min(rows[-1][j] + 1, row[-1] + 1, rows[-1][j - 1] + (a != b))
            if i > 1 and j > 1 and (a, b) == (other[j - 2], one[i - 2]):
                cost = min(cost, rows[-2][j - 2] + 1)
            row.append(cost)
        rows.append(row)
    return rows[-1][-1]


CHARACTERS_PER_SLIP = 4

_START = "__start__"
"""The name of a graph's input: no program means it."""

CHOICES_MAX = 10
"""The choices that a text names; a longer list hides the message."""
