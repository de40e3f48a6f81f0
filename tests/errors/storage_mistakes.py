"""Mistakes with savers, databases and extras; see `mistakes.py`."""

import asyncio
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

from actorgraph import ActorGraphError, Codec, InMemorySaver, PostgresSaver, SqliteSaver
from tests.errors.mistakes import at, chain, mistake, write


class Client:
    """A connection to a service."""


def run_sql(path: Path, statement: str) -> None:
    """Run a statement on a database of another program."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)


@mistake(
    "SerializationError: writes of a: log[0]['model'] has the type "
    "'tests.errors.storage_mistakes:Client', which can't be stored\n"
    "  Do this: store plain data, a dataclass, model, Struct, enum, named tuple; "
    "Codec(converters=) stores others; UntrackedValue keeps it out; then go on with the input "
    "None; this call's input is stored already"
)
def value_that_can_not_be_stored():
    chain(a=lambda state: {"log": [{"model": Client()}]}).compile(InMemorySaver()).invoke({}, at())


@mistake(
    "SaverClosedError: the saver's `with` block has ended\n"
    "  Do this: open it again, or use it inside the block"
)
def saver_after_its_block(tmp_path):
    with SqliteSaver(tmp_path / "runs.db") as saver:
        graph = chain(a=write).compile(saver)
    graph.invoke({}, at())


@mistake(
    "StorageError: can't create the database file '<folder>/no/runs.db': No such file or "
    "directory\n"
    "  Do this: make the folder '<folder>/no', or choose another path"
)
def folder_is_missing(tmp_path):
    chain(a=write).compile(SqliteSaver(tmp_path / "no" / "runs.db")).invoke({}, at())


@mistake(
    "StorageError: can't open '<folder>' as an SQLite database: unable to open database file\n"
    "  Do this: name a file in this folder, such as 'runs.db'"
)
def path_is_a_folder(tmp_path):
    chain(a=write).compile(SqliteSaver(tmp_path)).invoke({}, at())


@mistake(
    "StorageError: can't create the database file 'sqlite:/runs.db': No such file or "
    "directory\n"
    "  Do this: pass a path without 'sqlite:', such as 'runs.db'"
)
def path_is_a_url():
    chain(a=write).compile(SqliteSaver("sqlite:///runs.db")).invoke({}, at())


@mistake(
    "TypeError: SqliteSaver.__init__() missing 1 required positional argument: 'path'",
    of_python=True,
)
def path_is_missing():
    SqliteSaver()


@mistake(
    "StorageError: can't open '<folder>/notes.txt' as an SQLite database: file is not a "
    "database\n"
    "  Do this: choose another path: this file is of another kind, is damaged or is encrypted"
)
def file_of_another_kind(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("not a database" * 100)
    chain(a=write).compile(SqliteSaver(path)).invoke({}, at())


@mistake(
    "StorageError: '<folder>/other.db' is a database of another program: its table "
    "'checkpoints' has other columns\n"
    "  Do this: name another file, which will be made"
)
def database_of_another_program(tmp_path):
    run_sql(tmp_path / "other.db", "CREATE TABLE checkpoints (name)")
    chain(a=write).compile(SqliteSaver(tmp_path / "other.db")).invoke({}, at())


@mistake(
    "StorageError: '<folder>/old.db' holds the checkpoints of LangGraph's SqliteSaver\n"
    "  Do this: move them with `python -m actorgraph.migrate OLD NEW`, or name another file"
)
def database_of_langgraph(tmp_path):
    run_sql(tmp_path / "old.db", "CREATE TABLE checkpoints (thread_id, checkpoint_ns)")
    chain(a=write).compile(SqliteSaver(tmp_path / "old.db")).invoke({}, at())


@mistake(
    "FormatVersionError: '<folder>/new.db' has schema version 999; this version of actorgraph "
    "supports up to 2\n"
    "  Do this: upgrade actorgraph"
)
def database_of_a_newer_version(tmp_path):
    run_sql(tmp_path / "new.db", "PRAGMA user_version = 999")
    chain(a=write).compile(SqliteSaver(tmp_path / "new.db")).invoke({}, at())


@mistake(
    "EncryptionError: checkpoint <id> of thread '1': the value of channel 'text': a stored "
    "value is encrypted, and this codec has no keys\n"
    "  Do this: pass codec=Codec(keys={...}) with the keys that it was written with"
)
def encrypted_database_without_the_key(tmp_path):
    with SqliteSaver(tmp_path / "runs.db", codec=Codec(keys={"k1": bytes(32)})) as saver:
        chain(a=write).compile(saver).invoke({}, at())
    with SqliteSaver(tmp_path / "runs.db") as saver:
        chain(a=write).compile(saver).get_state(at())


@mistake(
    "InvalidConfigError: key 'k1' must be 32 bytes (or 16, or 24) for AES, got 6 bytes\n"
    "  Do this: make one with os.urandom(32) and keep it outside of the database"
)
def key_of_a_wrong_size():
    Codec(keys={"k1": b"secret"})


@mistake(
    "InvalidConfigError: SqliteSaver can't use the connection: SQLite objects created in a "
    "thread can only be used in that same thread\n"
    "  Do this: pass the file's path, or an open connection made with check_same_thread=False"
)
def connection_of_another_thread():
    with closing(sqlite3.connect(":memory:", check_same_thread=True)) as connection:
        SqliteSaver(connection).setup()


@mistake(
    'InvalidConfigError: the connection string can\'t be parsed: missing "=" after "runs.db" '
    "in connection info string\n"
    "  Do this: write e.g. 'postgresql://user:password@host:5432/database'"
)
def postgres_url_is_a_path():
    PostgresSaver("runs.db").setup()


@mistake(
    "MissingExtraError: PostgresSaver needs psycopg 3, which isn't installed\n"
    "  Do this: pip install 'actorgraph[postgres]'"
)
def postgres_without_the_extra(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("actorgraph.savers.postgres.e")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    PostgresSaver("postgresql://localhost/runs").setup()


@mistake(
    "ConflictError: thread '1' has an active run in this process\n"
    "  Do this: wait for that run to end, or use another thread_id"
)
def run_of_a_busy_thread():
    async def main():
        began, ended = asyncio.Event(), asyncio.Event()

        async def wait(state):
            began.set()
            await ended.wait()

        graph = chain(a=wait).compile(InMemorySaver())
        async with asyncio.TaskGroup() as group:
            group.create_task(graph.ainvoke({}, at()))
            await began.wait()
            try:
                return await graph.ainvoke({}, at())
            except ActorGraphError as error:
                return error
            finally:
                ended.set()

    raise asyncio.run(main())
