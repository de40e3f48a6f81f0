"""Tables of functions that block an event loop, that need one backend, or that act outside.

A row is found by the package and the qualified name of the function itself, so that an import
under another name changes nothing.
"""

import re
from dataclasses import dataclass

from actorgraph.cli.doctor.facts import CallFact

_VERBS = "get|post|put|patch|delete|head|options|request|send|stream"


@dataclass(frozen=True, slots=True)
class KnownCall:
    """Functions of one package with one remedy.

    Attributes:
        names: the whole qualified name matches this.
        do: what to call instead.
    """

    package: str
    names: str
    do: str

    def matches(self, call: CallFact) -> bool:
        """Whether a call is one of them."""
        return call.package == self.package and re.fullmatch(self.names, call.name) is not None


_THREAD = "await anyio.to_thread.run_sync(...), or write the node as a plain function"
_CLIENT = f"use httpx.AsyncClient, or {_THREAD}"

BLOCKING = (
    KnownCall("time", "sleep", "await anyio.sleep(...)"),
    KnownCall("requests", rf"(Session\.)?({_VERBS})", _CLIENT),
    KnownCall("httpx", rf"(Client\.)?({_VERBS})", _CLIENT),
    KnownCall("urllib", "urlopen|urlretrieve|OpenerDirector.open", _CLIENT),
    KnownCall(
        "subprocess",
        r"run|call|check_call|check_output|getoutput|getstatusoutput|Popen\.(wait|communicate)",
        "await anyio.run_process(...)",
    ),
    KnownCall("os", "system|popen|wait|waitpid", "await anyio.run_process(...)"),
    KnownCall("sqlite3", r"connect|Connection\.\w+|Cursor\.\w+", f"use aiosqlite, or {_THREAD}"),
    KnownCall(
        "psycopg",
        r"(Connection\.)?connect",
        f"use psycopg.AsyncConnection on asyncio, or {_THREAD}",
    ),
    KnownCall("psycopg2", r"\w+", _THREAD),
    KnownCall("pymysql", r"\w+", _THREAD),
    KnownCall(
        "socket", "create_connection|getaddrinfo|gethostbyname", "use anyio.connect_tcp(...)"
    ),
    KnownCall("threading", r"(Event|Condition|Barrier)\.wait|Thread\.join", "use anyio.Event"),
    KnownCall("queue", r"(Simple)?Queue\.(get|put|join)", "use anyio's memory object streams"),
    KnownCall("concurrent", r"Future\.(result|exception)|wait", _THREAD),
    KnownCall("builtins", "input", "use interrupt(...), which asks without a waiting process"),
)
"""Calls that wait in the thread of the event loop: no other run goes on meanwhile."""

FILES = (
    KnownCall("io", "open", f"use anyio.open_file(...), or {_THREAD}"),
    KnownCall(
        "pathlib",
        r"(Posix|Windows)?Path\.(read_\w+|write_\w+|open)",
        "use anyio.Path, or " + _THREAD,
    ),
    KnownCall("shutil", r"copy\w*|move|rmtree|make_archive|unpack_archive", _THREAD),
)
"""Calls that are quick for a small file on a local disk."""

ASYNCIO_PACKAGES = ("asyncio", "aiohttp", "asyncpg", "aiosqlite", "aiofiles")
TRIO_PACKAGES = ("trio",)
_ANYWHERE = frozenset(
    {
        *("iscoroutine", "iscoroutinefunction", "isfuture", "get_event_loop_policy", "run"),
        *("current_effective_deadline",),
    }
)
_NEEDS_LOOP = frozenset({"TaskGroup", "Timeout", "ClientSession"})


def backend_of(call: CallFact) -> str | None:
    """Return the backend that a call needs; None if it works on both."""
    if call.last in _ANYWHERE:
        return None
    if call.kind == "class" and call.last not in _NEEDS_LOOP:
        return None
    if call.kind == "method" and not call.awaits:
        return None
    if call.package in ASYNCIO_PACKAGES:
        return "asyncio"
    return "trio" if call.package in TRIO_PACKAGES else None


EFFECTS = (
    KnownCall("requests", r"(Session\.)?(post|put|patch|delete|request|send)", ""),
    KnownCall("httpx", r"((Async)?Client\.)?(post|put|patch|delete|request|send)", ""),
    KnownCall("subprocess", r"\w+|Popen\.\w+", ""),
    KnownCall("anyio", "run_process|open_process", ""),
    KnownCall("smtplib", r"SMTP(_SSL)?\.(send_message|sendmail)", ""),
    KnownCall("os", "system|remove|unlink|rename|replace", ""),
    KnownCall("pathlib", r"(Posix|Windows)?Path\.(write_\w+|unlink|rename|replace)", ""),
)
"""Calls that change something outside of the graph's state."""


def known(call: CallFact, table: tuple[KnownCall, ...]) -> KnownCall | None:
    """Return the row of a table that a call matches; None without one."""
    return next((row for row in table if row.matches(call)), None)


def is_interrupt(call: CallFact) -> bool:
    """Whether a call is `interrupt(...)`."""
    return call.package == "actorgraph" and call.name == "interrupt"
