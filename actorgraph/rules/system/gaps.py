"""Gaps: which events of a run a reader has missed, in numbers that events have had."""

MADE_END = 10**15 - 1
"""Offset of the end of a run that didn't store it. The state before it has the offset before."""


def missing_events(after: int, following: int | None) -> dict[str, int | None]:
    """Return the range of missed events, as a "gap" event has it: `from` and `to`.

    `to` is None if nobody knows how many were missed: the next event isn't known, or its number
    doesn't come after those of the reader, which counted events that are gone.

    Args:
        after: offset of the last event that the reader has, or counts from.
        following: offset of the next event that it gets; None if no event that was stored or kept
            follows.
    """
    first = after + 1
    return {"from": first, "to": following - 1 if following and following > first else None}
