"""Holes in lines of a file of appends: blocks that a power cut kept from the disk read as zeros."""


def has_hole(text: bytes) -> bool:
    """Whether blocks of a line are missing.

    One zero byte inside of a line may be a changed bit of a space.
    """
    return text.startswith(b"\0") or b"\0\0" in text


def before_hole(text: bytes) -> bytes:
    """Return what a line has before its hole: the line before, if that has lost its newline."""
    return text.partition(b"\0")[0]
