"""Alarms: when a system looks at the open questions of a thread.

A question may remind, and answer itself. What it wants and when is stored with the question
(`Timing` in `values/commands.py`); an alarm is the time of the next thing that a thread wants. It
only says when to look: a system that looks too early finds nothing to do, and sets the alarm anew.
Times are microseconds since 1970-01-01 UTC, by the store's clock.
"""

import msgspec


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
        at: its new time.
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
