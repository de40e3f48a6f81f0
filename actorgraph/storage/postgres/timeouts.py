"""Timeouts of work in PostgreSQL, enforced by the server and by the client.

lock        the server cancels a statement that waits longer for a lock (`busy_timeout_s`)
statement   the server cancels a statement that runs longer (`answer_timeout_s`)
answer      the client disconnects a little later if no answer comes: see `watchdog`
large work  has more time, see `extra_s` and `SLOW_TIMES`
connect     the client gives up connecting: see `connections`
"""

from typing import Any, LiteralString

import msgspec

from actorgraph.values.durations import checked_seconds

USE_SCHEMA: LiteralString = """
SELECT set_config('search_path', %s, true), set_config('lock_timeout', %s, true),
       set_config('statement_timeout', %s, true)"""
"""The first statement of every transaction; its parameters are `Timeouts.within`."""

IDLE_HOLDER_S = 1.0
"""Seconds for which a session that stores a batch, and has its threads locked, may leave the server
without its next statement. Only a process that is suspended or overloaded needs longer."""

LARGE_BYTES = 1_000_000
"""Bytes of a save from which on its size counts: for its time, its batch, and its errors."""

_BYTES_PER_S = 1_000_000
"""A server, or the network before it, that takes fewer bytes of a save counts as silent."""

SLOW_TIMES = 10
"""Work of unknown size that was cut off by a time limit is tried again with so many times of it."""

_GRACE = 1.25
"""The client waits this many times longer for an answer than the server may work on it: so a slow
statement ends by an error of the server, and the connection stays usable."""


class Timeouts(msgspec.Struct, frozen=True):
    """Timeouts in seconds.

    Attributes:
        busy_s: to wait for a lock that another transaction holds.
        answer_s: to wait for the server's answers to one piece of work.
        reconnect_s: to try to replace a lost connection.
    """

    busy_s: float = 5.0
    answer_s: float = 30.0
    reconnect_s: float = 30.0

    def after(self, waited_s: float) -> "Timeouts":
        """The limits of the next attempt of a save that has waited for a lock, in parts.

        After each part sessions that idle with the lock are ended. The parts grow with the time
        waited, so that long timeouts don't send the save again every second; together they are
        `busy_s`, and none is shorter than `IDLE_HOLDER_S` unless all of it is. When the time is
        over, there is one more part: for a lock that was just freed.

        Args:
            waited_s: the sum of the parts before.
        """
        left = self.busy_s - waited_s
        part = max(IDLE_HOLDER_S, waited_s)
        if left <= 0:
            part = min(self.busy_s, IDLE_HOLDER_S)
        elif left - part < IDLE_HOLDER_S:
            part = left
        return msgspec.structs.replace(self, busy_s=part)

    def longer(self, extra_s: float) -> "Timeouts":
        """The limits of work that may take longer by `extra_s`."""
        if not extra_s:
            return self
        return msgspec.structs.replace(self, answer_s=self.answer_s + extra_s)

    def within(self, search_path: str, *, patient: bool = False) -> tuple[str, str, str]:
        """The parameters of `USE_SCHEMA`.

        Args:
            search_path: the schema's name, quoted.
            patient: whether statements may run without a limit.
        """
        statement = "0" if patient else _milliseconds(self.answer_s / _GRACE)
        return search_path, self.lock_timeout, statement

    @property
    def idle_timeouts(self) -> tuple[str, str]:
        """For how long a session may idle with locked threads: a saver's; one of a program."""
        return _milliseconds(min(self.busy_s, IDLE_HOLDER_S)), self.lock_timeout

    @property
    def lock_timeout(self) -> str:
        """`busy_s` as a setting of PostgreSQL, in milliseconds with the unit."""
        return _milliseconds(self.busy_s)


def timeouts_of(**seconds: Any) -> Timeouts:
    """Make `Timeouts` of the arguments of a saver or a store: `busy_timeout_s` and so on.

    Raises:
        InvalidConfigError: one is not a number above 0.
    """
    for name, value in seconds.items():
        checked_seconds(name, value)
    return Timeouts(**{name.replace("_timeout_s", "_s"): value for name, value in seconds.items()})


def extra_s(size: int) -> float:
    """Seconds by which a save may exceed the timeout for answers, for its bytes."""
    return size / _BYTES_PER_S if size >= LARGE_BYTES else 0.0


def quoted(schema: str) -> str:
    """A schema's name, quoted for SQL and for `search_path`."""
    return '"' + schema.replace('"', '""') + '"'


def _milliseconds(seconds: float) -> str:
    return f"{max(1, min(round(seconds * 1000), 2**31 - 1))}ms"
