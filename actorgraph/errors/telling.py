"""Texts of exceptions: reporting an exception of a program never raises another one."""

from collections.abc import Sequence
from contextlib import suppress
from traceback import format_exception
from typing import TypeVar

from actorgraph.errors.texts import storable

E = TypeVar("E", bound=BaseException)


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
