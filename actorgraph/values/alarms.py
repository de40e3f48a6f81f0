"""The times of questions: when they remind and answer themselves, and when a system looks. Pure.

A question may remind, and answer itself: what it wants and when is its `Timing`, stored with it. An
alarm is the time of the next thing that a thread's open questions want. It only says when to look:
a system that looks too early finds nothing to do, and sets the alarm anew. All times are
microseconds since 1970-01-01 UTC by the store's clock, so that all processes over one database
agree on them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any

import msgspec

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Timing:
    """The times of a question.

    Attributes:
        asked: when it was asked first.
        due: when it answers itself; None for never.
        otherwise: the answer that it gives itself then, as a tuple of one; () for none: the call
            of `interrupt` then raises `QuestionExpiredError`.
        reminders: when it reminds, in ascending order.
        escalate: the name of the function that is called then; "" for none.
        sleeps: whether it is a sleep, which only the clock and an answer by its id end.
        reminded: when it has reminded; from rows of its own.
    """

    asked: int
    due: int | None = None
    otherwise: tuple[Any, ...] = ()
    reminders: tuple[int, ...] = ()
    escalate: str = ""
    sleeps: bool = False
    reminded: tuple[int, ...] = ()

    def __repr__(self) -> str:
        parts = ["sleeps"] if self.sleeps else []
        if self.due is not None:
            parts.append(f"due={as_datetime(self.due).isoformat()}")
        if self.reminders:
            parts.append(f"reminds={[as_datetime(at).isoformat() for at in self.reminders]}")
        return f"Timing({', '.join(parts)})"

    @property
    def open_reminders(self) -> tuple[int, ...]:
        """The reminders that are still to come, or overdue: none that the newest one covered."""
        last = self.reminded[-1] if self.reminded else self.asked - 1
        return tuple(at for at in self.reminders if at > last)

    @property
    def own_answer(self) -> Any:
        """The answer that it gives itself when it is due."""
        return self.otherwise[0] if self.otherwise else dict(EXPIRED)

    @property
    def expires(self) -> bool:
        """Whether it is due without an answer of its own: its call raises then."""
        return self.due is not None and not self.otherwise

    @property
    def next(self) -> int | None:
        """When it does something next; None for never."""
        times = [*self.open_reminders[:1], *(() if self.due is None else (self.due,))]
        return min(times, default=None)


EXPIRED = {"__expired__": True}
"""The stored form of the answer of a question that was due and has no `otherwise`."""


def is_expired(answer: object) -> bool:
    """Whether an answer says that its question was due."""
    return type(answer) is dict and answer == EXPIRED


NO_TIMINGS: Mapping[str, Timing] = MappingProxyType({})


def as_datetime(at: int) -> datetime:
    """Convert microseconds since 1970-01-01 UTC to a time in UTC."""
    return _EPOCH + timedelta(microseconds=at)


def as_microseconds(at: datetime) -> int:
    """Convert a time with a zone to microseconds since 1970-01-01 UTC."""
    return (at - _EPOCH) // _MICROSECOND


def sleep_value(due: int) -> dict[str, str]:
    """What a sleep says to those who look at the thread's open questions."""
    return {"sleeps_until": as_datetime(due).isoformat()}


def from_now(length: timedelta, now: int) -> int:
    """The time that is so much later than now."""
    return now + length // _MICROSECOND


def shown_times(timing: Timing | None) -> dict[str, Any]:
    """Return the times of a question as clients see them: JSON data; {} for one that only waits.

    The answer that it gives itself, and the name of the function that it calls when it reminds,
    are the graph's own and not shown.

    Returns: `asked`, `due` (None for never), `remind` and `reminded` (lists), as ISO 8601 text in
        UTC; `expires`, whether it is due without an answer of its own; and `sleeps`.
    """
    if timing is None:
        return {}
    return {
        "due": None if timing.due is None else _iso(timing.due),
        "remind": [_iso(at) for at in timing.reminders],
        "reminded": [_iso(at) for at in timing.reminded],
        "asked": _iso(timing.asked),
        "expires": timing.expires,
        "sleeps": timing.sleeps,
    }


def times_in(shown: Mapping[str, Any]) -> Timing | None:
    """Read what `shown_times` has shown, of a question of another server's say.

    Returns: the times, with None in place of the question's own answer; None if there are none.
    """
    asked, due = shown.get("asked"), shown.get("due")
    if not isinstance(asked, str):
        return None
    return Timing(
        _at(asked),
        None if due is None else _at(due),
        () if due is None or shown.get("expires") else (None,),
        tuple(_at(at) for at in shown.get("remind") or ()),
        sleeps=bool(shown.get("sleeps")),
        reminded=tuple(_at(at) for at in shown.get("reminded") or ()),
    )


def _iso(at: int) -> str:
    return as_datetime(at).isoformat()


def _at(text: str) -> int:
    return as_microseconds(datetime.fromisoformat(text))


class Alarm(msgspec.Struct, frozen=True, gc=False):
    """The alarm of a thread, as a commit sets it.

    Attributes:
        at: when to look at it; 0 takes the alarm away.
        graph: the name of the graph that asked; systems look at threads of their own graphs.
    """

    at: int
    graph: str = ""


class AlarmRow(msgspec.Struct, frozen=True):
    """The alarm of a thread, as it was read."""

    thread_id: str
    at: int
    graph: str


class TakeAlarm(msgspec.Struct, frozen=True):
    """Move an alarm, if it still has the time at which it was read.

    Of several systems that look at the same moment one takes it, and has until `at` to do what it
    says; after that another one may. The outcome's `sequence` is 1 if it was moved, else 0.

    Attributes:
        was: its time when it was read.
        at: its new time; 0 takes the alarm away.
    """

    thread_id: str
    was: int
    at: int
    size: int = 0


class ListAlarms(msgspec.Struct, frozen=True):
    """Read the alarms that come first, in order of time and thread id: a list of `AlarmRow`.

    Attributes:
        graphs: only those of threads of these graphs.
        limit: the most rows.
    """

    graphs: tuple[str, ...]
    limit: int
