"""A table of typical mistakes: small programs as newcomers write them, with their exact messages.

Each file `*_mistakes.py` adds rows with `@mistake(expected)`. `expected` is the error's class and
text, then its notes; paths, ids and times are replaced by `<folder>`, `<id>` and `<s>`.
"""

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypedDict

from actorgraph import END, START, StateGraph, interrupt


@dataclass(frozen=True)
class Mistake:
    """A program that fails.

    Attributes:
        program: its fixtures are its parameters.
        expected: the error as `message_of` writes it.
        of_python: whether the message is Python's own, which has no advice.
    """

    program: Callable[..., Any]
    expected: str
    of_python: bool


MISTAKES: dict[str, Mistake] = {}


def mistake(expected: str, *, of_python: bool = False) -> Callable[..., Any]:
    """Add a program to the table."""

    def add(program: Callable[..., Any]) -> Callable[..., Any]:
        assert program.__name__ not in MISTAKES
        MISTAKES[program.__name__] = Mistake(program, expected, of_python)
        return program

    return add


def message_of(error: BaseException, folder: Path) -> str:
    """Return an error's class, text and notes, without the note that names the task."""
    notes = [note for note in getattr(error, "__notes__", ()) if not note.startswith("During task")]
    text = "\n".join([f"{type(error).__name__}: {error}", *notes])
    for pattern, name in (
        (re.escape(str(folder)), "<folder>"),
        (r"[0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "<id>"),
        (r"thread id \d+", "thread id <n>"),
        (r"(keyword argument '\w+')\. Did you mean '\w+'\?", r"\1"),  # Python says it since 3.13
    ):
        text = re.sub(pattern, name, text)
    return text


class State(TypedDict, total=False):
    """The state of most programs."""

    text: str
    log: Annotated[list[Any], operator.add]


def write(state: State) -> dict[str, Any]:
    """Return one key."""
    return {"text": "hi"}


def ask(state: State) -> dict[str, Any]:
    """Ask a question."""
    return {"text": interrupt("sure?")}


def chain(**nodes: Any) -> StateGraph:
    """Declare nodes one after the other."""
    builder = StateGraph(State)
    last = START
    for name, function in nodes.items():
        builder.add_node(name, function)
        builder.add_edge(last, name)
        last = name
    return builder.add_edge(last, END)


def at(thread_id: str = "1") -> dict[str, Any]:
    """Return the config of a thread."""
    return {"configurable": {"thread_id": thread_id}}
