"""Text that programs make, where it is stored or shown: what every store, log and trace takes.

Stores keep UTF-8, which has no lone surrogates, and PostgreSQL no NUL either. Such text comes from
file names, from processes, from clients. A name that must be found again is refused where it is
given (`is_name`); a text for people is escaped (`storable`), so that nothing fails for it later.
"""

NAME_BYTES_MAX = 1000
"""Bytes of a name that is part of a row's key: PostgreSQL indexes no longer ones together."""

NO_NAME = f"no store takes it: it has NUL, a lone surrogate, or more than {NAME_BYTES_MAX:,} bytes"
"""What is wrong with text that isn't `is_name`."""


def storable(text: str) -> str:
    """The text, with lone surrogates and NUL escaped as Python would write them."""
    if "\0" in text:
        text = text.replace("\0", "\\x00")
    if text.isascii():
        return text
    return text.encode("utf-8", "backslashreplace").decode()


def is_unicode(text: str) -> bool:
    """Whether text can be encoded: it has no half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_name(text: str) -> bool:
    """Whether the text can be part of a row's key in every store."""
    return "\0" not in text and is_unicode(text) and len(text.encode()) <= NAME_BYTES_MAX
