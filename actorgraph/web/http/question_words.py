"""What questions do by themselves, in words: for the command and the studio. Pure."""

from collections.abc import Callable, Iterable
from datetime import datetime

import msgspec

from actorgraph.internals import as_datetime
from actorgraph.types import Interrupt


class Times(msgspec.Struct, frozen=True):
    """What the open questions of a thread do by themselves. Times are ISO 8601 text in UTC.

    Attributes:
        until: when the first of them answers itself, or the first sleep ends; "" for never.
        sleeps: whether that one is a sleep.
        expires: whether that one has no answer of its own: its call raises.
        remind: when the first of them reminds next; "" for never.
        reminded: how often the one that reminded most has.
    """

    until: str = ""
    sleeps: bool = False
    expires: bool = False
    remind: str = ""
    reminded: int = 0


def times_of(questions: Iterable[Interrupt]) -> Times | None:
    """Sum up the times of open questions; None if they only wait."""
    known = [question.timing for question in questions if question.timing is not None]
    if not known:
        return None
    ends = [(timing.due, place) for place, timing in enumerate(known) if timing.due is not None]
    reminders = [timing.open_reminders[0] for timing in known if timing.open_reminders]
    first = known[min(ends)[1]] if ends else None
    return Times(
        "" if first is None or first.due is None else _iso(first.due),
        first is not None and first.sleeps,
        first is not None and first.expires,
        _iso(min(reminders)) if reminders else "",
        max(len(timing.reminded) for timing in known),
    )


def times_text(times: Times | None, now: datetime, length: Callable[[float], str]) -> str:
    """Say what questions do by themselves: "answers itself in 2 h, reminded 2 times".

    Args:
        now: with a zone.
        length: says how long some seconds are.
    Returns: "" for questions that only wait.
    """
    if times is None:
        return ""

    def ahead(text: str) -> str:
        seconds = (datetime.fromisoformat(text) - now).total_seconds()
        return f"in {length(seconds)}" if seconds > 0 else "now"

    said: list[str] = []
    if times.until and times.sleeps:
        said.append(f"sleeps until {times.until[:16].replace('T', ' ')} UTC")
    elif times.until:
        said.append(f"{'expires' if times.expires else 'answers itself'} {ahead(times.until)}")
    if times.remind:
        said.append(f"reminds {ahead(times.remind)}")
    if times.reminded:
        said.append("reminded once" if times.reminded == 1 else f"reminded {times.reminded} times")
    return ", ".join(said)


def _iso(at: int) -> str:
    return as_datetime(at).isoformat()
