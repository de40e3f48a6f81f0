"""Timeouts of work in PostgreSQL, enforced by the server and by the client.

lock        the server cancels a statement that waits longer for a lock (`busy_timeout_s`)
statement   the server cancels a statement that runs longer (`answer_timeout_s`)
answer      the client disconnects a little later if no answer comes: see `watchdog`
connect     the client gives up connecting: see `connections`
"""

from typing import Any, LiteralString

import msgspec

from actorgraph.errors import InvalidConfigError

USE_SCHEMA: LiteralString = """
SELECT set_config('search_path', %s, true), set_config('lock_timeout', %s, true),
       set_config('statement_timeout', %s, true)"""
"""The first statement of every transaction; its parameters are `Timeouts.within`."""

IDLE_HOLDER_S = 1.0
"""Seconds for which a session that has rows of threads locked may leave the server without its next
statement. A batch is sent whole, so only a process that is suspended or overloaded needs longer."""

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

    def parts(self) -> "tuple[Timeouts, Timeouts]":
        """Split the time for a lock: before idle holders are ended, and after that.

        The first part is `IDLE_HOLDER_S` long, or all of it if it is no longer.
        """
        first = min(self.busy_s, IDLE_HOLDER_S)
        rest = self.busy_s - first or self.busy_s
        return msgspec.structs.replace(self, busy_s=first), msgspec.structs.replace(
            self, busy_s=rest
        )

    def within(self, search_path: str, *, patient: bool = False) -> tuple[str, str, str]:
        """The parameters of `USE_SCHEMA`.

        Args:
            search_path: the schema's name, quoted.
            patient: whether statements may run without a limit.
        """
        statement = "0" if patient else _milliseconds(self.answer_s / _GRACE)
        return search_path, self.lock_timeout, statement

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
        if not isinstance(value, (int, float)) or not value > 0:
            raise InvalidConfigError(f"{name} must be > 0, got {value!r}", do="pass seconds")
    return Timeouts(**{name.replace("_timeout_s", "_s"): value for name, value in seconds.items()})


def quoted(schema: str) -> str:
    """A schema's name, quoted for SQL and for `search_path`."""
    return '"' + schema.replace('"', '""') + '"'


def _milliseconds(seconds: float) -> str:
    return f"{max(1, min(round(seconds * 1000), 2**31 - 1))}ms"
