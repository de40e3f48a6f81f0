"""Text that every store, log and trace can take, and texts of exceptions.

Stores keep UTF-8, which has no lone surrogates, and PostgreSQL no NUL either. File names, processes
and clients produce such text. A name that must be found again is refused where it is given
(`is_storable_name`); text for people is escaped (`storable`), so that storing it can't fail.
Reporting a program's exception never raises another one, and its text is storable.
"""

import re
from collections.abc import Sequence
from contextlib import suppress
from traceback import format_exception
from typing import TypeVar

NAME_BYTES_MAX = 1000
"""Bytes of a name that is part of a row's key: PostgreSQL can't index several longer ones."""

NAME_REFUSED = f"it has NUL, a lone surrogate, or more than {NAME_BYTES_MAX:,} bytes"
"""Reason for a refused name (`is_storable_name`), for the text of an error."""


def storable(text: str) -> str:
    """Escape lone surrogates and NUL as Python writes them."""
    if "\0" in text:
        text = text.replace("\0", "\\x00")
    if text.isascii():
        return text
    return text.encode("utf-8", "backslashreplace").decode()


def escape_controls(text: str) -> str:
    """Escape control characters (C0, DEL, C1) as Python writes them, for logs and terminals."""
    return _CONTROL.sub(lambda found: repr(found[0])[1:-1], text)


_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def plain(text: str) -> str:
    """Return the same text as a `str` itself: a member of an enum is shown and stored as such."""
    return text if type(text) is str else str.__str__(text)


def is_encodable(text: str) -> bool:
    """Whether text can be encoded as UTF-8: it has no lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_storable_name(text: str) -> bool:
    """Whether the text can be part of a row's key in every store."""
    return "\0" not in text and is_encodable(text) and len(text.encode()) <= NAME_BYTES_MAX


E = TypeVar("E", bound=BaseException)


def value_repr(value: object) -> str:
    """Return the `repr` of a value; if that fails, its type and what `repr` raised."""
    try:
        return repr(value)
    except Exception as error:  # noqa: BLE001 - of a program's class, or an integer too long
        return f"<{type(value).__name__} that can't be shown: {type(error).__name__}>"


def error_repr(error: BaseException) -> str:
    """Return the `repr` of an exception; if that fails, its type and what `repr` raised."""
    try:
        return storable(repr(error))
    except BaseException as worse:  # noqa: BLE001 - it is the exception of a node
        return f"<{type(error).__name__}, whose repr() raised {type(worse).__name__}>"


def error_text(error: BaseException) -> str:
    """Return the `str` of an exception; if that fails, what `str` raised."""
    try:
        return storable(str(error))
    except BaseException as worse:  # noqa: BLE001 - as above
        return f"<its str() raised {type(worse).__name__}>"


def error_traceback(error: BaseException) -> str:
    """Return the traceback as Python prints it; if that fails, the exception's `repr`."""
    try:
        return storable("".join(format_exception(error)))
    except BaseException:  # noqa: BLE001 - as above
        return error_repr(error)


def add_note(error: BaseException, text: str) -> None:
    """Add a note to an exception, if it accepts notes."""
    with suppress(BaseException):  # the error matters more than its note
        error.add_note(text)


def combine_errors(errors: Sequence[E]) -> E:
    """Return the first error, with a note for each other one, as a loop over many items raises."""
    for other in dict.fromkeys(errors[1:]):
        if other is not errors[0]:
            notes: Sequence[str] = getattr(other, "__notes__", ())
            add_note(errors[0], "; ".join([f"also: {error_text(other)}", *notes]))
    return errors[0]
