"""Reading of SQLite's large values by blob handles."""

import sqlite3
from contextlib import closing
from typing import TypedDict

import pytest

from actorgraph import START, SqliteSaver, StateGraph
from actorgraph.savers.sqlite import schema
from actorgraph.storage.sqlite.blob_reads import (
    LARGE_BYTES,
    ValueStatement,
    fetch_values,
    over_values,
)
from tests.storage.test_sqlite_rows import old_file
from tests.support.graphs import at

ALL = over_values("SELECT t.k, {t.v}, t.n {t in t} FROM t ORDER BY k", at=1)
VALUES = {
    "1": b"",
    "2": b"x" * (LARGE_BYTES - 1),
    "3": b"y" * LARGE_BYTES,
    "4": bytes(range(256)) * 2_048,
    "5": "z" * (LARGE_BYTES + 1),
    "6": 7,
    "7": None,
}
"""Key -> value: small, at the limit, above it, and what no saver writes."""


class V(TypedDict):
    v: bytes


CREATE = "CREATE TABLE t (k TEXT PRIMARY KEY, v, n INTEGER)"
TABLES = [CREATE, "CREATE TABLE t (k TEXT PRIMARY KEY, v, n INTEGER) WITHOUT ROWID"]


def made(path, create: str = CREATE) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute(create)
        db.executemany("INSERT INTO t VALUES (?, ?, 5)", VALUES.items())


class TestFetchValues:
    @pytest.mark.parametrize("create", TABLES)
    def test_rows_are_those_of_the_plain_statement(self, tmp_path, create):
        """
        Values of all sizes and types come at their places, from tables with and without a rowid.
        """
        made(tmp_path / "t.db", create)
        with closing(sqlite3.connect(tmp_path / "t.db")) as db:
            rows = fetch_values(db, ALL, ())

            assert rows == [(key, value, 5) for key, value in VALUES.items()]
            assert rows == db.execute(ALL.plain).fetchall()

    def test_large_values_are_left_out_of_the_statement(self, tmp_path):
        """
        The statement itself returns no value of the limit's size: only the number of its row.
        """
        made(tmp_path / "t.db")
        with closing(sqlite3.connect(tmp_path / "t.db")) as db:
            found = {row[0]: (row[1], row[-1]) for row in db.execute(ALL.split)}

        assert {key for key, (value, number) in found.items() if number is not None} == {"3", "4"}
        assert found["3"] == (None, 3)

    def test_values_belong_to_the_transaction_of_their_rows(self, tmp_path):
        """
        A large value that another connection has replaced meanwhile is read as the transaction
        began.
        """
        made(tmp_path / "t.db")
        with (
            closing(sqlite3.connect(tmp_path / "t.db", isolation_level=None)) as reader,
            closing(sqlite3.connect(tmp_path / "t.db", isolation_level=None)) as writer,
        ):
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM t").fetchone()
            writer.execute("UPDATE t SET v = ?, n = 6", (b"n" * (LARGE_BYTES * 2),))
            before = fetch_values(reader, ALL, ())
            reader.execute("COMMIT")

            assert before == [(key, value, 5) for key, value in VALUES.items()]
            assert {row[1:] for row in fetch_values(reader, ALL, ())} == {
                (b"n" * (LARGE_BYTES * 2), 6)
            }

    def test_other_errors_of_the_statement_are_raised(self, tmp_path):
        """
        Only a missing rowid leads to the plain statement; a missing table is an error.
        """
        with (
            closing(sqlite3.connect(tmp_path / "t.db")) as db,
            pytest.raises(sqlite3.OperationalError, match="no such table: t"),
        ):
            fetch_values(db, ALL, ())


class TestStatements:
    def test_each_read_of_values_leaves_large_ones_out(self):
        """
        Every SELECT of one checkpoint's values is one of `over_values`; pages and merged
        list rows are read as a whole.
        """
        selects = {name: text for name, text in vars(schema).items() if name.startswith("SELECT_")}
        plain = {
            name
            for name, text in selects.items()
            if isinstance(text, str) and ("payload" in text or ", input," in text)
        }

        assert plain == {"SELECT_MERGED", "SELECT_VALUES"}
        assert sum(isinstance(text, ValueStatement) for text in selects.values()) == 5

    @pytest.mark.parametrize("is_old", [True, False])
    def test_threads_with_large_values_are_read_whole(self, tmp_path, is_old):
        """
        State and history of a thread with large values are right, in files of older versions too.
        """
        path = tmp_path / "saver.db"
        if is_old:
            old_file(path)
        large = {"a": b"a" * LARGE_BYTES, "b": b"b" * (2 * LARGE_BYTES)}
        builder = StateGraph(V)
        builder.add_node("a", lambda _: {"v": large["a"]})
        builder.add_node("b", lambda _: {"v": large["b"]})
        builder.add_edge(START, "a").add_edge("a", "b")
        with SqliteSaver(path) as saver:
            graph = builder.compile(checkpointer=saver)
            graph.invoke({"v": b"i" * LARGE_BYTES}, at("t"))
            now = graph.get_state(at("t"))
            values = [point.values.get("v") for point in graph.get_state_history(at("t"))]

        assert now.values == {"v": large["b"]}
        assert now.metadata["writes"] == {"b": {"v": large["b"]}}
        assert values[:3] == [large["b"], large["a"], b"i" * LARGE_BYTES]
