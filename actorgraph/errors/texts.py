"""Text that every store, log and trace can take, and texts of exceptions.

Stores keep UTF-8, which has no lone surrogates, and PostgreSQL no NUL either. File names, processes
and clients produce such text. A name that must be found again is refused where it is given
(`is_storable_name`); text for people is escaped (`storable`), so that storing it can't fail.
Reporting a program's exception never raises another one, and its text is storable.
"""

NAME_BYTES_MAX = 1000
"""Bytes of a name that is part of a row's key: PostgreSQL can't index several longer ones."""

NAME_REFUSED = f"it has NUL, a lone surrogate, or more than {NAME_BYTES_MAX:,} bytes"
"""Why text is not `is_storable_name`, for the text of an error."""


def storable(text: str) -> str:
    """Escape lone surrogates and NUL as Python writes them."""
    if "\0" in text:
        text = text.replace("\0", "\\x00")
    if text.isascii():
        return text
    return text.encode("utf-8", "backslashreplace").decode()


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
