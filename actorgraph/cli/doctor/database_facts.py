"""Facts about a database, read over a saver that only reads, and with SQL of SQLite's own."""

import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import anyio

from actorgraph.cli.doctor.database_checks import AGE_MAX_S
from actorgraph.cli.doctor.facts import DatabaseFacts, OpenRunFact
from actorgraph.cli.exit_codes import UsageError
from actorgraph.cli.output import without_password
from actorgraph.cli.places import is_postgres, is_saver_name, saver_at, schema_of
from actorgraph.errors import ActorGraphError, EncryptionError
from actorgraph.internals import (
    NO_OWNER,
    CountCheckpoints,
    Host,
    ListOwners,
    ListRuns,
    ListThreads,
    RunRow,
    as_text,
    host_of,
    innermost,
    reading_address,
)
from actorgraph.internals import SQLITE_SCHEMA_VERSION as SCHEMA_VERSION

THREADS_MAX = 500
"""Threads whose checkpoints are counted."""
SAMPLES = 3
"""Threads whose newest values, or oldest checkpoint, are read."""
_MOUNTS = Path("/proc/self/mounts")


async def database_facts(place: str, codec: Any = None) -> DatabaseFacts:
    """Gather the facts of a database; nothing in it is changed.

    Args:
        place: a path, an address or `module:saver`, as `saver_at` takes it.
        codec: of the program's saver, for encrypted values; default none.
    """
    facts = _of_place(place)
    if facts.error:
        return facts
    if facts.kind == "sqlite":
        facts = _of_file(facts, place)
    elif facts.kind == "postgres":
        facts = await anyio.to_thread.run_sync(_of_server, facts, place)
    if facts.error or (facts.version is not None and facts.version != facts.known_version):
        return facts
    return await _asked(facts, saver_at(place, codec=codec))


async def saver_facts(saver: Any) -> DatabaseFacts:
    """Gather the facts of a program's saver; it is opened as the program opens it."""
    return await _asked(DatabaseFacts(type(innermost(saver)).__name__, "saver"), saver)


async def _asked(facts: DatabaseFacts, saver: Any) -> DatabaseFacts:
    try:
        async with saver as opened:
            return await _of_saver(facts, opened)
    except ActorGraphError as error:
        return replace(facts, error=without_password(error.what), do=error.do)
    except OSError as error:
        return replace(facts, error=str(error))
    except Exception as error:
        if facts.kind != "saver":
            raise
        # A saver of a program may raise errors of its own database.
        return replace(facts, error=without_password(f"{type(error).__name__}: {error}"))


def _of_place(place: str) -> DatabaseFacts:
    """Return the kind of a database, or why it has none."""
    shown = without_password(place)
    if is_postgres(place):
        if find_spec("psycopg") is None:
            text = "PostgreSQL is used through it"
            return DatabaseFacts(shown, "postgres", text, missing="psycopg")
        return DatabaseFacts(shown, "postgres")
    if is_saver_name(place):
        return DatabaseFacts(shown, "saver")
    try:
        saver = saver_at(place)
    except UsageError as error:
        return DatabaseFacts(shown, "sqlite", error.what, do=error.do)
    except OSError as error:
        return DatabaseFacts(shown, "sqlite", str(error))
    kind = "jsonl" if type(saver).__name__ == "JsonlSaver" else "sqlite"
    return DatabaseFacts(shown, kind)


def _of_file(facts: DatabaseFacts, place: str) -> DatabaseFacts:
    """Read the version and the journal mode of a SQLite file, and try its rights."""
    path = Path(place).absolute()
    had_log = Path(f"{path}-wal").exists()
    try:
        with closing(sqlite3.connect(reading_address(place), uri=True, timeout=1)) as reading:
            (version,) = reading.execute("PRAGMA user_version").fetchone()
            (journal,) = reading.execute("PRAGMA journal_mode").fetchone()
            has_tables = reading.execute(
                "SELECT count(*) FROM sqlite_master WHERE name IN ('threads', 'checkpoints')"
            ).fetchone() == (2,)
    except sqlite3.Error as error:
        return replace(facts, error=str(error))
    reason = _refusal(path)
    if not had_log and not reason:  # SQLite removes an empty log when a writer closes it
        with suppress(sqlite3.Error), closing(sqlite3.connect(path, timeout=0)) as last:
            last.execute("SELECT 1 FROM sqlite_master").fetchone()
    return replace(
        facts,
        version=version if has_tables else 0,
        known_version=SCHEMA_VERSION,
        journal=journal,
        filesystem=filesystem_of(path, _MOUNTS.read_text()) if _MOUNTS.exists() else "",
        not_writable=reason,
    )


def _refusal(path: Path) -> str:
    """Return why a file can't be written by this user; "" if it can."""
    for each, what in ((path, "the file"), (path.parent, "its folder, where SQLite keeps its log")):
        if not os.access(each, os.W_OK):
            return f"this user may not write {what}"
    return ""


def filesystem_of(path: Path, mounts: str) -> str:
    """Return the type of the file system of a path; "" if no line of `mounts` fits.

    Args:
        mounts: the text of /proc/self/mounts.
    """
    found = ("", "")
    for line in mounts.splitlines():
        fields = line.split()
        if len(fields) > 2:
            point = fields[1].replace("\\040", " ")
            if path.is_relative_to(point) and len(point) >= len(found[0]):
                found = point, fields[2]
    return found[1]


def _of_server(facts: DatabaseFacts, place: str) -> DatabaseFacts:
    """Read the version of PostgreSQL's tables, and whether this role may write them."""
    import psycopg

    from actorgraph.internals import POSTGRES_SCHEMA_VERSION as VERSION
    from actorgraph.internals import USE_SCHEMA, Timeouts, quoted

    address, schema = schema_of(place)
    try:
        with psycopg.connect(address, connect_timeout=3, autocommit=True) as connection:
            table = f"{quoted(schema)}.saver_migrations"
            row = connection.execute("SELECT to_regclass(%s)", (table,)).fetchone()
            if row is None or row[0] is None:
                return replace(facts, version=0, known_version=VERSION)
            with connection.transaction():
                connection.execute(USE_SCHEMA, Timeouts().within(quoted(schema)))
                newest = connection.execute(
                    "SELECT coalesce(max(v), 0), has_table_privilege('checkpoints', 'INSERT'),"
                    " current_setting('transaction_read_only') FROM saver_migrations"
                ).fetchone()
    except psycopg.Error as error:
        return replace(facts, error=without_password(" ".join(str(error).split())))
    assert newest is not None
    version, may_write, only_reads = newest
    reason = "" if may_write else "this role may not insert into its tables"
    if only_reads == "on":
        reason = "the server only reads, as a standby does"
    return replace(facts, version=version, known_version=VERSION, not_writable=reason)


async def _of_saver(facts: DatabaseFacts, saver: Any) -> DatabaseFacts:
    """Read runs, systems, the lengths of threads and some values."""
    host = host_of(saver)
    living, runs = 0, []
    if getattr(saver, "keeps_runs", False):
        owners = await host.reader.ask(ListOwners())
        living = sum(1 for row in owners if row.lease_s is not None and row.lease_s > 0)
        rows = await host.reader.ask(ListRuns(statuses=("pending", "running", "parked")))
        runs = [_run(row, time.time()) for row in rows]
    threads: list[str] = await host.reader.ask(ListThreads())
    lengths = await _lengths(host, threads[:THREADS_MAX])
    return replace(
        facts,
        living=living,
        runs=tuple(runs),
        lengths=lengths,
        oldest_s=await _oldest_s(saver, host, lengths),
        unread=await _unread(saver, threads[:SAMPLES]),
    )


def _run(row: RunRow, now: float) -> OpenRunFact:
    since = max(row.created, row.due) / 1e6
    return OpenRunFact(
        run=as_text(row.run),
        thread_id=row.thread_id,
        graph=row.graph,
        status=row.status,
        build=row.build,
        alive=row.alive,
        waits=row.owner in (None, NO_OWNER) and not row.claimed,
        age_s=now - since,
        reason=row.reason,
    )


async def _lengths(host: Host, threads: list[str]) -> dict[str, int]:
    found: dict[str, int] = {}

    async def count(thread: str) -> None:
        found[thread] = await host.reader.ask(CountCheckpoints(thread, None))

    async with anyio.create_task_group() as group:
        for thread in threads:
            group.start_soon(count, thread)
    return found


async def _oldest_s(saver: Any, host: Host, lengths: dict[str, int]) -> float | None:
    """Return the age of the oldest checkpoint that a newer one of its thread has replaced."""
    before = int((time.time() - AGE_MAX_S) * 1e6)
    old: list[str] = await host.reader.ask(ListThreads(older=before))
    ages: list[float] = []
    for thread in [thread for thread in old if lengths.get(thread, 2) > 1][:SAMPLES]:
        for first in await saver.alist_metadata(thread, limit=1):
            made = datetime.fromisoformat(first.created_at).timestamp()
            ages.append(time.time() - made)
    return max(ages, default=None)


async def _unread(saver: Any, threads: list[str]) -> str:
    """Return the error of the first value that can't be decrypted; "" if all can."""
    for thread in threads:
        read: Callable[..., Any] = saver.aget_tuple
        try:
            await read({"configurable": {"thread_id": thread}})
        except EncryptionError as error:
            return error.what
        except ActorGraphError:  # of a type of the program's, say: another matter
            continue
    return ""
