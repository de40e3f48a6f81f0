"""The output of commands: text by rich or JSON on stdout, one line for an error on stderr."""

import os
import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from actorgraph.errors import ActorGraphError

if TYPE_CHECKING:
    from rich.console import Console

WIDTH = 100
"""Columns of the text, if neither a terminal nor COLUMNS says another number."""

T = TypeVar("T")

_PASSWORD = re.compile(r"(://[^\s:/@]*):[^\s/]*@|(password=)('[^']*'|[^\s&]+)", re.IGNORECASE)


def without_password(text: str) -> str:
    """Replace the passwords of database URLs in a text by ***."""
    return _PASSWORD.sub(lambda m: f"{m[1]}:***@" if m[1] is not None else f"{m[2]}***", text)


def printable(text: str) -> str:
    """Replace control characters by spaces: a stored text must not steer the terminal."""
    return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)


def console(*, stderr: bool = False) -> "Console":
    """Return rich's console for stdout or stderr."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or os.environ.get("COLUMNS") else WIDTH
    return Console(file=stream, width=width, highlight=False, emoji=False, markup=False)


def show(result: T, draw: "Callable[[Console, T], None]", *, as_json: bool) -> None:
    """Print a result: a msgspec Struct as JSON, or as text by `draw`."""
    if as_json:
        print_json(result)
    else:
        draw(console(), result)


def print_json(result: Any) -> None:
    """Print a document of JSON, with two spaces of indentation."""
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(result), indent=2).decode() + "\n")
    sys.stdout.flush()


def print_json_line(result: Any) -> None:
    """Print one line of JSON, at once: for commands whose results come one after another."""
    sys.stdout.write(msgspec.json.encode(result).decode() + "\n")
    sys.stdout.flush()


def note(text: str) -> None:
    """Print a line on stderr, which is not part of the result."""
    sys.stderr.write(without_password(text) + "\n")
    sys.stderr.flush()


class ErrorLine(msgspec.Struct, frozen=True):
    """An error as `--json` prints it, on stderr.

    Attributes:
        kind: the name of its class.
        do: what to do about it; "" if unknown.
    """

    error: str
    kind: str
    do: str = ""


def error_line(error: BaseException) -> ErrorLine:
    """Describe an error, without passwords and without line breaks."""
    if isinstance(error, ActorGraphError):
        what, do = error.what, error.do
    else:
        what = str(error) or "no message"
        do = "add --traceback before the command to see where it comes from"
        what = f"{type(error).__name__}: {what}"
    return ErrorLine(_one_line(what), type(error).__name__, _one_line(do))


def print_error(error: BaseException, *, as_json: bool) -> None:
    """Print one line about an error on stderr."""
    line = error_line(error)
    if as_json:
        sys.stderr.write(msgspec.json.encode(line).decode() + "\n")
    else:
        do = f" Do this: {line.do}" if line.do else ""
        ending = "" if line.error.endswith((".", "!", "?")) else "."
        sys.stderr.write(f"actorgraph: {line.error}{ending}{do}\n")


def _one_line(text: str) -> str:
    return printable(" ".join(without_password(text).split()))
