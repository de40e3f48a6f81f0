"""Arguments that are JSON: on the command line, in a file (`@file`), or from stdin (`-`)."""

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from actorgraph.cli.exit_codes import UsageError
from actorgraph.cli.printed import OpenQuestion

ID_MIN = 4
"""Characters by which a question's id may be cut."""

_NAMED = re.compile(r"([0-9a-f]{4,32})=(.*)", re.DOTALL)


def json_of(text: str, option: str) -> Any:
    """Read a JSON argument.

    Raises:
        UsageError: it is not JSON, or the file can't be read.
    """
    try:
        if text == "-":
            text = sys.stdin.read()
        elif text.startswith("@"):
            text = Path(text[1:]).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{option} {text!r}: {error}", do="name a file that has JSON") from error
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"{option} is not JSON: {error}",
            do=f"""write {option} '{{"key": "value"}}', {option} @file.json, or {option} -""",
        ) from error


def object_of(text: str | None, option: str) -> dict[str, Any]:
    """Read a JSON object; an empty one for None.

    Raises:
        UsageError: it is not a JSON object.
    """
    found = {} if text is None else json_of(text, option)
    if not isinstance(found, dict):
        raise UsageError(
            f"{option} is {type(found).__name__}, not a JSON object",
            do=f"""write {option} '{{"key": "value"}}'""",
        )
    return found


def answers_of(given: Sequence[str], asked: Sequence[OpenQuestion]) -> dict[str, Any]:
    """Match answers with a thread's questions: id -> answer.

    An answer is `JSON` or `ID=JSON`, with the id or its beginning; a text that is not JSON answers
    as it is.

    Raises:
        UsageError: an answer has no question, or which one it has is not clear.
    """
    found: dict[str, Any] = {}
    for text in given:
        named = _NAMED.fullmatch(text)
        if named:
            fits = [one.id for one in asked if one.id.startswith(named[1])]
        else:
            fits = [one.id for one in asked]
        if len(fits) != 1 or fits[0] in found:
            raise UsageError(
                f"--answer {text!r} fits {len(fits)} of the thread's {len(asked)} open questions",
                do="name one: " + ("; ".join(f"--answer {one.id}=JSON" for one in asked) or "none"),
            )
        found[fits[0]] = _json_or_text(named[2] if named else text)
    return found


def _json_or_text(text: str) -> Any:
    if text == "-" or text.startswith("@"):
        return json_of(text, "--answer")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
