"""Buckets of threads in one schema: their states, and the triggers that refuse other threads.

A schema that was never part of a `ShardedSystem` has none of this. The triggers fire when a thread
or a run is inserted, and when a system takes a run over; never for the saves of a run. They hold a
shared lock until the end of their transaction, and a change of states waits for it: rows that were
let through are stored by then. Blocking; for worker threads.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TypeVar

import psycopg
from psycopg import Connection
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import tuple_row
from psycopg.sql import SQL, Composed, Identifier, Literal

from actorgraph.errors import InvalidConfigError, StorageBusyError
from actorgraph.rules.system.sharding import ChangeBucket
from actorgraph.savers.postgres.columns import Numbers, register_dumpers
from actorgraph.storage.postgres.connections import OwnConnections
from actorgraph.storage.postgres.parameters import CONNECTION_DEFAULTS, CONNECTION_ENCODING
from actorgraph.storage.postgres.timeouts import Timeouts, quoted
from actorgraph.storage.postgres.translate import Attempts, classify_error, translate
from actorgraph.values.shards import BUCKETS, BucketRow

T = TypeVar("T")
ATTEMPTS_MAX = 3
MOVE_NAME = "actorgraph-buckets"
"""The name of a session while it works on buckets."""

REFUSED = "23AG1"
"""The SQLSTATE with which the triggers refuse a run; its class is that of refused rows."""

_TABLES = SQL("""
CREATE TABLE buckets (
    bucket integer PRIMARY KEY,
    state  text NOT NULL,
    other  text COLLATE "C" NOT NULL DEFAULT ''
) WITH (fillfactor = 50);
CREATE TABLE shard_name (name text COLLATE "C" NOT NULL);
""")
_FUNCTIONS = SQL("""
CREATE FUNCTION {s}.bucket_of(thread_id text) RETURNS integer IMMUTABLE LANGUAGE sql AS $$
    SELECT (get_byte(h, 0) << 4) | (get_byte(h, 1) >> 4)
    FROM (SELECT sha256(convert_to(thread_id, 'UTF8')) AS h) AS hashed
$$;
CREATE FUNCTION {s}.bucket_state(named text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE found text;
BEGIN
    IF current_setting('actorgraph.moving', true) = 'on' THEN RETURN 'here'; END IF;
    PERFORM pg_advisory_xact_lock_shared({key});
    SELECT b.state INTO found FROM {s}.buckets b WHERE b.bucket = {s}.bucket_of(named);
    RETURN coalesce(found, 'away');
END $$;
CREATE FUNCTION {s}.admit_thread() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE state text := {s}.bucket_state(NEW.thread_id);
BEGIN
    IF state = 'here' OR state = 'leaving' AND EXISTS (
        SELECT FROM {s}.system_runs r
        WHERE r.thread_id = NEW.thread_id AND r.status IN ('pending', 'running'))
    THEN RETURN NEW; END IF;
    RETURN NULL;
END $$;
CREATE FUNCTION {s}.admit_run() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF {s}.bucket_state(NEW.thread_id) <> 'here' THEN
        RAISE EXCEPTION 'the threads of its bucket have moved, or move now'
            USING ERRCODE = {refused};
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER admit_thread BEFORE INSERT ON {s}.threads
    FOR EACH ROW EXECUTE FUNCTION {s}.admit_thread();
CREATE TRIGGER admit_run BEFORE INSERT ON {s}.system_runs
    FOR EACH ROW EXECUTE FUNCTION {s}.admit_run();
CREATE TRIGGER admit_takeover BEFORE UPDATE OF owner ON {s}.system_runs
    FOR EACH ROW WHEN (NEW.owner IS DISTINCT FROM OLD.owner AND NEW.owner <> '')
    EXECUTE FUNCTION {s}.admit_run();
""")
# A thread that is not there is left out of a batch without an error: its insert comes before the
# savepoints that separate the requests. The batch then finds that it couldn't lock it.
_FILL = "INSERT INTO buckets SELECT n, %s FROM generate_series(0, %s) n"
# A row that was deleted must not move those behind it: to the triggers it is "away" too.
_STATES = """
SELECT coalesce(state, 'away'), coalesce(other, '')
FROM generate_series(0, %s) n LEFT JOIN buckets ON bucket = n ORDER BY n
"""
_CHANGE = "UPDATE buckets SET state = %s, other = %s WHERE bucket = ANY(%s)"
DELETE_BUCKETS = (
    "DELETE FROM points WHERE thread IN (SELECT thread FROM moving)",
    "DELETE FROM blobs WHERE thread IN (SELECT thread FROM moving)",
    "DELETE FROM ranges WHERE thread IN (SELECT thread FROM moving)",
    "DELETE FROM writes WHERE thread IN (SELECT thread FROM moving)",
    """DELETE FROM events WHERE run IN (
        SELECT r.run FROM runs r JOIN moving USING (thread)
        UNION SELECT s.run FROM system_runs s JOIN moving USING (thread_id))""",
    """DELETE FROM cancels WHERE run IN (
        SELECT s.run FROM system_runs s JOIN moving USING (thread_id))""",
    "DELETE FROM runs WHERE thread IN (SELECT thread FROM moving)",
    "DELETE FROM system_runs WHERE thread_id IN (SELECT thread_id FROM moving)",
    "DELETE FROM alarms WHERE thread_id IN (SELECT thread_id FROM moving)",
    "DELETE FROM threads WHERE thread IN (SELECT thread FROM moving)",
    "DELETE FROM thread_index WHERE thread_id IN (SELECT thread_id FROM moving)",
    # Last: the triggers of the index mark threads whose rows are deleted.
    "DELETE FROM thread_marks WHERE thread_id IN (SELECT thread_id FROM moving)",
)
# Threads with rows, those of which runs were accepted that have not begun, and those that were
# registered only.
_FIND = """
CREATE TEMP TABLE moving ON COMMIT DROP AS
SELECT thread, thread_id
FROM (SELECT thread, thread_id FROM threads WHERE bucket_of(thread_id) = ANY(%s)) AS t
FULL JOIN (SELECT thread_id FROM system_runs WHERE bucket_of(thread_id) = ANY(%s)
           UNION SELECT thread_id FROM thread_index WHERE bucket_of(thread_id) = ANY(%s)) AS s
    USING (thread_id)
"""


class BucketTable:
    """The states of the buckets in one schema of one database.

    Args:
        name: of the database, in the `ShardedSystem`.
        conninfo: its address.
        schema: of the saver.
        limits: timeouts of the saver.
    """

    def __init__(self, name: str, conninfo: str, schema: str, limits: Timeouts) -> None:
        self.name = name
        self._conninfo = conninfo
        self._schema = schema
        self._limits = limits
        self._source = OwnConnections(
            conninfo, answer_timeout_s=limits.answer_s, prepare=register_dumpers
        )

    def close(self) -> None:
        """Close the connections."""
        self._source.close()

    @contextmanager
    def connected(self) -> Generator[Connection[Any]]:
        """Lend a connection in autocommit mode, its errors translated.

        Raises:
            StorageError: it can't be used, or a statement was refused.
        """
        try:
            with self._source.lease(patient=True) as connection:
                yield connection
        except psycopg.Error as error:
            raise translate(error, classify_error(error), connected=True) from error

    @contextmanager
    def transaction(self, connection: Connection[Any]) -> Generator[Any]:
        """A transaction in the schema; yields a cursor."""
        with connection.transaction(), connection.cursor(row_factory=tuple_row) as cursor:
            names = f"{quoted(self._schema)}, pg_temp"
            # Of another name than savers: it may idle with locked threads for longer than they.
            values = (names, self._limits.lock_timeout, MOVE_NAME)
            cursor.execute(
                "SELECT set_config('search_path', %s, true), set_config('lock_timeout', %s, true),"
                " set_config('application_name', %s, true)",
                values,
            )
            yield cursor

    def is_enrolled(self) -> bool:
        """Whether the schema has states of buckets."""
        return self._repeated(self._is_enrolled)

    def enrol(self, *, holds: bool) -> None:
        """Create the table and the triggers, unless they are there.

        Args:
            holds: whether the schema has all buckets then, or none.
        Raises:
            InvalidConfigError: the schema has another name in the tables than here.
        """
        known = self._repeated(partial(self._enrol, holds=holds))
        if known != self.name:
            raise InvalidConfigError(
                f"the database given as {self.name!r} was called {known!r} before",
                do="keep the names of databases: they are stored with the buckets",
            )

    def states(self) -> list[BucketRow]:
        """Read the states of all buckets, by bucket."""
        rows = self._repeated(lambda cursor: cursor.execute(_STATES, (BUCKETS - 1,)).fetchall())
        return [BucketRow(*row) for row in rows]

    def _enrol(self, cursor: Any, *, holds: bool) -> str:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", (self._key(cursor, "states"),))
        if not self._is_enrolled(cursor):
            cursor.execute(_TABLES)
            cursor.execute(_functions(self._schema, self._key(cursor, "states")))
            cursor.execute(_FILL, ("here" if holds else "away", BUCKETS - 1))
            cursor.execute("INSERT INTO shard_name VALUES (%s)", (self.name,))
        row = cursor.execute("SELECT name FROM shard_name").fetchone()
        if row is None:
            raise InvalidConfigError(
                f"the database {self.name!r} has lost its name: the table shard_name is empty",
                do="restore the table from a backup, or, if it is this database, insert its name",
            )
        return row[0]

    def _repeated(self, work: Callable[[Any], T]) -> T:
        """Do what may be done twice in a transaction; again if the connection is lost.

        Raises:
            StorageError: the server refused a statement, or can't be reached.
        """
        attempts = Attempts(
            renews=True,
            reconnect_timeout_s=self._limits.reconnect_s,
            attempts_max=ATTEMPTS_MAX,
        )
        while True:
            connection: Connection[Any] | None = None
            try:
                with (
                    self._source.lease(patient=True) as connection,
                    self.transaction(connection) as cursor,
                ):
                    return work(cursor)
            except psycopg.Error as error:
                kind = classify_error(error, connection)
                if not attempts.again(kind):
                    raise translate(error, kind, connected=self._source.connected) from error
            attempts.pause()

    @contextmanager
    def alone(self) -> Generator[None]:
        """Hold the lock of those who move buckets from or to this database.

        Raises:
            StorageBusyError: another process does.
        """
        # Not a lent connection: it idles for as long as the move takes. In a transaction, since a
        # pooler may lend the session to others after its end.
        with self._lock_connection() as connection:
            connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
            with self.transaction(connection) as cursor:
                key = self._key(cursor, "moves")
                cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", (key,))
                taken = cursor.fetchone()[0]
            if not taken:
                raise StorageBusyError(
                    f"another process is moving buckets of the database {self.name!r}",
                    do="wait until it has ended",
                )
            try:
                yield
            finally:
                # Closing the connection would do it too, but a little later.
                with suppress(psycopg.Error):
                    connection.rollback()

    @contextmanager
    def _lock_connection(self) -> Generator[Connection[Any]]:
        from_conninfo = conninfo_to_dict(self._conninfo)
        parameters: Any = {**CONNECTION_DEFAULTS, **from_conninfo, **CONNECTION_ENCODING}
        try:
            connection = psycopg.connect(**parameters)
        except psycopg.Error as error:
            raise translate(error, classify_error(error), connected=False) from error
        try:
            yield connection
        finally:
            connection.close()

    def change(self, buckets: Iterable[int], change: ChangeBucket) -> None:
        """Change buckets; waits for transactions that have inserted threads or runs."""
        with self.connected() as connection, self.transaction(connection) as cursor:
            if change.clear:
                cursor.execute("SET LOCAL actorgraph.moving = 'on'")
                delete(cursor, list(buckets))
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", (self._key(cursor, "states"),))
            set_states(cursor, buckets, change)

    def _is_enrolled(self, cursor: Any) -> bool:
        table = f"{quoted(self._schema)}.shard_name"
        return cursor.execute("SELECT to_regclass(%s)", (table,)).fetchone() != (None,)

    def _key(self, cursor: Any, kind: str) -> int:
        """The key of an advisory lock."""
        text = f"actorgraph {kind} of buckets {self._schema}"
        return cursor.execute("SELECT hashtextextended(%s, 0)", (text,)).fetchone()[0]


def _functions(schema: str, key: int) -> Composed:
    """The functions and triggers of a schema; `key` is that of the lock of states."""
    named = {"s": Identifier(schema), "key": Literal(key), "refused": Literal(REFUSED)}
    return _FUNCTIONS.format(**named)


def set_states(cursor: Any, buckets: Iterable[int], change: ChangeBucket) -> None:
    """Store a change, in the transaction of a cursor."""
    cursor.execute(_CHANGE, (change.state, change.other, Numbers(buckets)))


def find(cursor: Any, buckets: Sequence[int]) -> int:
    """Note the threads of buckets in the temporary table `moving`; return how many they are."""
    numbers = Numbers(buckets)
    return cursor.execute(_FIND, (numbers, numbers, numbers)).rowcount


def delete(cursor: Any, buckets: Sequence[int]) -> None:
    """Delete the rows of the threads of buckets."""
    find(cursor, buckets)
    for statement in DELETE_BUCKETS:
        cursor.execute(statement)
    cursor.execute("DROP TABLE moving")
