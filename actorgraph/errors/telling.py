"""Texts of exceptions that anybody may have written: telling of an error never fails itself.

What comes of it is `storable`.
"""

from collections.abc import Sequence
from contextlib import suppress
from traceback import format_exception
from typing import TypeVar

from actorgraph.errors.texts import storable

E = TypeVar("E", bound=BaseException)


def shown(error: BaseException) -> str:
    """The `repr` of an exception; where that fails, its type and what its `repr` raised."""
    try:
        return storable(repr(error))
    except BaseException as worse:  # noqa: BLE001 - it is the exception of a node
        return f"<{type(error).__name__}, whose repr() raised {type(worse).__name__}>"


def said(error: BaseException) -> str:
    """The text of an exception; where that fails, what its `str` raised."""
    try:
        return storable(str(error))
    except BaseException as worse:  # noqa: BLE001 - as above
        return f"<its str() raised {type(worse).__name__}>"


def stack(error: BaseException) -> str:
    """The traceback of an exception as Python prints it; where that fails, only the exception."""
    try:
        return storable("".join(format_exception(error)))
    except BaseException:  # noqa: BLE001 - as above
        return shown(error)


def note(error: BaseException, text: str) -> None:
    """Add a note to an exception, if it takes notes."""
    with suppress(BaseException):  # without the note it is the same error
        error.add_note(text)


def together(errors: Sequence[E]) -> E:
    """The first of some errors, with a note for each other: what a sweep over many raises last."""
    for other in dict.fromkeys(errors[1:]):
        if other is not errors[0]:
            notes: Sequence[str] = getattr(other, "__notes__", ())
            note(errors[0], "; ".join([f"also: {said(other)}", *notes]))
    return errors[0]
