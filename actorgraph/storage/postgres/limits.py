"""Time limits of work in PostgreSQL, as the server and its clients keep them.

lock        the server ends a statement that waits for a lock for longer (`busy_timeout_s`)
statement   the server ends a statement that works for longer (`answer_timeout_s`)
answer      the client ends a connection without an answer a little later: see `watchdog`
connect     the client gives up a connection that is not made: see `connections`
"""

from typing import Any, LiteralString

import msgspec

from actorgraph.errors import InvalidConfigError

USE_SCHEMA: LiteralString = """
SELECT set_config('search_path', %s, true), set_config('lock_timeout', %s, true),
       set_config('statement_timeout', %s, true)"""
"""What every transaction begins with; its parameters are those of `Timeouts.within`."""

_GRACE = 1.25
"""The server has this much less time for an answer than the client waits for it, so that a slow
statement ends by the server's error, and the connection stays."""


class Timeouts(msgspec.Struct, frozen=True):
    """How long work may wait.

    Attributes:
        busy_s: for a lock that another transaction holds.
        answer_s: for the answers of one piece of work over a connection.
        reconnect_s: for a connection in the place of a lost one.
    """

    busy_s: float = 5.0
    answer_s: float = 30.0
    reconnect_s: float = 30.0

    def within(self, search_path: str, *, patient: bool = False) -> tuple[str, str, str]:
        """The parameters of `USE_SCHEMA`.

        Args:
            search_path: the schema, quoted.
            patient: whether a statement may work for as long as it takes.
        """
        statement = "0" if patient else _milliseconds(self.answer_s / _GRACE)
        return search_path, self.lock_timeout, statement

    @property
    def lock_timeout(self) -> str:
        """`busy_s` with its unit, as PostgreSQL writes it."""
        return _milliseconds(self.busy_s)


def timeouts_of(**seconds: Any) -> Timeouts:
    """Timeouts made of the arguments of a saver or a store: `busy_timeout_s` and so on.

    Raises:
        InvalidConfigError: one is not a number above 0.
    """
    for name, value in seconds.items():
        if not isinstance(value, (int, float)) or not value > 0:
            raise InvalidConfigError(f"{name}={value!r} is no time", do="use more than 0 seconds")
    return Timeouts(**{name.replace("_timeout_s", "_s"): value for name, value in seconds.items()})


def quoted(schema: str) -> str:
    """A schema's name as it stands in SQL and in `search_path`."""
    return '"' + schema.replace('"', '""') + '"'


def _milliseconds(seconds: float) -> str:
    return f"{max(1, min(round(seconds * 1000), 2**31 - 1))}ms"
