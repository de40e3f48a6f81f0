"""Texts of exceptions that anybody may have written: telling of an error never fails itself."""

from contextlib import suppress


def shown(error: BaseException) -> str:
    """The `repr` of an exception; where that fails, its type and what its `repr` raised."""
    try:
        return repr(error)
    except BaseException as worse:  # noqa: BLE001 - it is the exception of a node
        return f"<{type(error).__name__}, whose repr() raised {type(worse).__name__}>"


def said(error: BaseException) -> str:
    """The text of an exception; where that fails, what its `str` raised."""
    try:
        return str(error)
    except BaseException as worse:  # noqa: BLE001 - as above
        return f"<its str() raised {type(worse).__name__}>"


def note(error: BaseException, text: str) -> None:
    """Add a note to an exception, if it takes notes."""
    with suppress(BaseException):  # without the note it is the same error
        error.add_note(text)
