"""LangGraph's checkpoint databases, read only: SQLite files and PostgreSQL."""

import json
import sqlite3
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

import msgspec

from actorgraph.errors import InvalidConfigError, MissingExtraError
from actorgraph.internals import reading_address


class SourceCheckpoint(msgspec.Struct):
    """A checkpoint as LangGraph stored it.

    Attributes:
        namespace: of the checkpoint; "" for the root graph.
        id: of the checkpoint.
        parent: id of its parent; None for the first.
        body: the checkpoint's form and bytes; or a dict that is decoded except for its values.
        metadata: of the checkpoint.
        blobs: channel -> form and bytes, of values that have rows of their own.
        writes: (task id, channel, form, bytes) in LangGraph's order.
        damage: how its row differs from those that LangGraph writes; "" if it doesn't.
    """

    namespace: str
    id: str
    parent: str | None
    body: tuple[str | None, bytes] | dict[str, Any]
    metadata: dict[str, Any]
    blobs: dict[str, tuple[str, bytes]]
    writes: list[tuple[str, str, str | None, bytes]]
    damage: str = ""


class SourceDatabase(Protocol):
    """A LangGraph database, open for reading."""

    def threads(self) -> list[str]:
        """Return the ids of its threads, sorted."""
        ...

    def read(self, thread_id: str) -> list[SourceCheckpoint]:
        """Return a thread's checkpoints, oldest first."""
        ...

    def close(self) -> None:
        """Close the database."""
        ...


class SqliteSource:
    """A file of LangGraph's SqliteSaver, opened read-only.

    Raises:
        InvalidConfigError: the file doesn't exist, or has no checkpoints.
    """

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise InvalidConfigError(
                f"file {str(path)!r} not found", do="pass the path of LangGraph's file"
            )
        uri = reading_address(str(path.resolve()))
        self._connection = sqlite3.connect(uri, uri=True, check_same_thread=False)
        try:
            columns = [r[1] for r in self._connection.execute("PRAGMA table_info(writes)")]
            self._connection.execute("SELECT 1 FROM checkpoints LIMIT 1")
            if not columns:
                raise sqlite3.DatabaseError("no table writes")
        except sqlite3.Error as error:
            self._connection.close()
            raise InvalidConfigError(
                f"{str(path)!r} has no checkpoints of LangGraph: {error}",
                do="pass the path of the file that LangGraph's SqliteSaver writes",
            ) from error
        self._order = "task_path, task_id, idx" if "task_path" in columns else "task_id, idx"

    def threads(self) -> list[str]:
        """See `SourceDatabase`."""
        found = self._connection.execute("SELECT DISTINCT thread_id FROM checkpoints ORDER BY 1")
        return [thread_id for (thread_id,) in found]

    def read(self, thread_id: str) -> list[SourceCheckpoint]:
        """See `SourceDatabase`."""
        writes: dict[tuple[str, str], list[tuple[str, str, str | None, bytes]]] = {}
        ordered = _WRITES_BY_PATH if "task_path" in self._order else _WRITES_BY_TASK
        for namespace, point, *write in self._connection.execute(ordered, (thread_id,)):
            task, channel, form, payload = write
            writes.setdefault((namespace, point), []).append((task, channel, form, payload))
        return [
            SourceCheckpoint(
                ns, i, parent, (form, body), shown, {}, writes.get((ns, i), []), damage
            )
            for ns, i, parent, form, body, metadata in self._connection.execute(
                _CHECKPOINTS, (thread_id,)
            )
            for shown, damage in [_metadata(metadata)]
        ]

    def close(self) -> None:
        """See `SourceDatabase`."""
        self._connection.close()


_CHECKPOINTS = (
    "SELECT checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata "
    "FROM checkpoints WHERE thread_id = ? ORDER BY checkpoint_id"
)
_WRITES = (
    "SELECT checkpoint_ns, checkpoint_id, task_id, channel, type, value FROM writes "
    "WHERE thread_id = ? ORDER BY "
)
_WRITES_BY_PATH = _WRITES + "task_path, task_id, idx"
_WRITES_BY_TASK = _WRITES + "task_id, idx"


class PostgresSource:
    """A database of LangGraph's PostgresSaver, in a read-only session.

    Raises:
        MissingExtraError: psycopg isn't installed.
        InvalidConfigError: the database can't be reached, or has no checkpoints.
    """

    def __init__(self, url: str) -> None:
        try:
            psycopg: Any = import_module("psycopg")
        except ImportError as error:
            raise MissingExtraError(
                "reading PostgreSQL needs psycopg, which isn't installed",
                do="pip install 'actorgraph[postgres]'",
            ) from error
        try:
            self._connection: Any = psycopg.connect(url, autocommit=True)
            self._connection.execute("SET default_transaction_read_only = on")
            self._connection.execute("SELECT 1 FROM checkpoints LIMIT 1")
        except psycopg.Error as error:
            raise InvalidConfigError(
                f"the database has no checkpoints of LangGraph that can be read: {error}",
                do="pass the URL of the database that LangGraph's PostgresSaver writes",
            ) from error
        found = self._connection.execute(
            "SELECT 1 FROM information_schema.columns WHERE table_schema = current_schema() "
            "AND table_name = 'checkpoint_writes' AND column_name = 'task_path'"
        )
        self._has_paths = found.fetchone() is not None

    def threads(self) -> list[str]:
        """See `SourceDatabase`."""
        rows = self._connection.execute("SELECT DISTINCT thread_id FROM checkpoints ORDER BY 1")
        return [thread_id for (thread_id,) in rows]

    def read(self, thread_id: str) -> list[SourceCheckpoint]:
        """See `SourceDatabase`."""
        blobs: dict[tuple[str, str, str], tuple[str, bytes]] = {}
        for namespace, channel, version, form, blob in self._connection.execute(
            "SELECT checkpoint_ns, channel, version, type, blob FROM checkpoint_blobs "
            "WHERE thread_id = %s",
            (thread_id,),
        ):
            if form != "empty":
                blobs[namespace, channel, version] = (form, bytes(blob or b""))
        writes: dict[tuple[str, str], list[tuple[str, str, str | None, bytes]]] = {}
        query = _PG_BY_PATH if self._has_paths else _PG_BY_TASK
        for namespace, point, task, channel, form, blob in self._connection.execute(
            query, (thread_id,)
        ):
            known = writes.setdefault((namespace, point), [])
            known.append((task, channel, form, bytes(blob or b"")))
        return [
            SourceCheckpoint(
                *(ns, i, parent, body, shown, _blobs_of(blobs, ns, body)),
                *(writes.get((ns, i), []), damage),
            )
            for ns, i, parent, body, metadata in self._connection.execute(
                "SELECT checkpoint_ns, checkpoint_id, parent_checkpoint_id, checkpoint, metadata "
                "FROM checkpoints WHERE thread_id = %s ORDER BY checkpoint_id",
                (thread_id,),
            )
            for shown, damage in [_metadata(metadata)]
        ]

    def close(self) -> None:
        """See `SourceDatabase`."""
        self._connection.close()


_PG_WRITES = (
    "SELECT checkpoint_ns, checkpoint_id, task_id, channel, type, blob FROM checkpoint_writes "
    "WHERE thread_id = %s ORDER BY "
)
_PG_BY_PATH = _PG_WRITES + "task_path, task_id, idx"
_PG_BY_TASK = _PG_WRITES + "task_id, idx"


def _blobs_of(
    blobs: dict[tuple[str, str, str], tuple[str, bytes]], namespace: str, body: Any
) -> dict[str, tuple[str, bytes]]:
    versions: Any = body.get("channel_versions") if isinstance(body, dict) else None
    if not isinstance(versions, dict):
        return {}  # decoding the checkpoint reports the damage
    versions = cast("dict[str, Any]", versions)
    keys = {channel: (namespace, channel, str(version)) for channel, version in versions.items()}
    return {channel: blobs[key] for channel, key in keys.items() if key in blobs}


def _metadata(stored: Any) -> tuple[dict[str, Any], str]:
    """Decode a checkpoint's metadata; returns it and a description of its damage, or ""."""
    try:
        found = json.loads(stored or "{}") if isinstance(stored, (str, bytes)) else stored or {}
    except (ValueError, RecursionError) as error:
        return {}, f"its metadata isn't JSON: {error}"
    if not isinstance(found, dict):
        return {}, "its metadata isn't a dict"
    for key, kind in (("step", int), ("parents", dict)):
        if not isinstance(found.get(key) or kind(), kind):
            return {}, f"its metadata's {key!r} is {found[key]!r:.100}"
    return cast("dict[str, Any]", found), ""


def source_of(place: str | Path) -> SourceDatabase:
    """Open a file's path or a "postgresql://" URL.

    Raises: as `SqliteSource` and `PostgresSource`.
    """
    if isinstance(place, str) and place.startswith(("postgres://", "postgresql://")):
        return PostgresSource(place)
    return SqliteSource(Path(place))
