"""The tables of an SQLite file: columns, indexes, and what any SQLite client reads there."""

import json
import re

import pytest

from actorgraph import Codec, SqliteSaver
from actorgraph.codec.records import frames
from actorgraph.runtime.saver.hosting import host_of
from actorgraph.savers.sqlite import schema, system_schema
from actorgraph.values.thread_rows import DropThread, FindThreads, PatchThread, PutThread
from tests.savers.test_sqlite_file import connected, path
from tests.support.graphs import ab, at

__all__ = ["path"]


class TestTables:
    @pytest.mark.promise("S096", "S106")
    def test_columns_of_a_checkpoint(self, path):
        """
        One row per checkpoint, its record as JSON beside projected columns.
        """
        with connected(path) as db:
            columns = {row[1] for row in db.execute("PRAGMA table_info(checkpoints)")}
            records = [json.loads(r) for (r,) in db.execute("SELECT record FROM checkpoints")]
            plain = db.execute("SELECT next, metadata FROM checkpoints").fetchall()

        assert columns >= {
            *("thread", "namespace", "seq", "id", "parent", "step", "source", "run"),
            *("next", "has_interrupts", "created", "metadata", "record"),
        }
        assert all(record["v"] == 4 for record in records)
        assert all(isinstance(json.loads(text), (list, dict)) for row in plain for text in row)

    @pytest.mark.promise("S095", "S096")
    def test_a_row_is_what_the_saver_reads(self, path):
        """
        Record and columns of a row say of its checkpoint what the saver's own reads say.
        """
        with SqliteSaver(path) as saver:
            points = {p.checkpoint["id"]: p for p in saver.list(at())}
            summaries = saver.list_metadata("t")
        with connected(path) as db:
            rows = db.execute(
                "SELECT hex(id), hex(parent), hex(run), namespace, metadata, record "
                "FROM checkpoints WHERE thread = 1 ORDER BY seq"
            ).fetchall()

        for (name, parent, run, namespace, metadata, record), told in zip(
            rows, summaries, strict=True
        ):
            point = points[told.checkpoint_id].checkpoint
            assert _hex(told.checkpoint_id, told.parent_id, told.run_id) == [name, parent, run]
            assert namespace == told.checkpoint_ns == ""
            assert json.loads(metadata).items() <= told.metadata.items()
            for key in ("channel_versions", "versions_seen", "updated_channels"):
                assert json.loads(record)[key] == point[key]

    @pytest.mark.promise("S096")
    async def test_projected_columns_say_what_the_snapshots_say(self, path):
        """
        source, step, next and the interrupts flag can be read with any SQLite client.
        """
        with connected(path) as db:
            rows = db.execute(
                "SELECT t.thread_id, c.source, c.step, c.next, c.has_interrupts "
                "FROM checkpoints c JOIN threads t USING (thread) ORDER BY t.thread_id, c.seq"
            ).fetchall()

        assert rows == [
            ("t", "input", -1, '["__start__"]', 0),
            ("t", "loop", 0, '["a"]', 0),
            ("t", "loop", 1, '["b"]', 0),
            ("t", "loop", 2, "[]", 0),
            ("w", "input", -1, '["__start__"]', 0),
            ("w", "loop", 0, '["ask"]', 1),
        ]

    def test_every_table_of_the_design_is_there(self, path):
        """
        Tables for later features exist from the first version on.
        """
        with connected(path) as db:
            tables = {n for (n,) in db.execute("SELECT name FROM sqlite_master WHERE type='table'")}
            threads = {row[1] for row in db.execute("PRAGMA table_info(threads)")}

        assert tables >= {
            *("threads", "runs", "checkpoints", "blobs", "ranges", "writes", "events"),
        }
        assert threads >= {"epoch", "owner", "lease_until", "next_seq", "removed"}

    async def test_the_index_of_threads_is_made_by_its_first_use(self, tmp_path):
        """
        A file has no tables of it before; two savers that have it open both use them then, and a
        search before finds none.
        """
        path = tmp_path / "runs.db"
        async with SqliteSaver(path) as one, SqliteSaver(path) as other:
            first, second = host_of(one), host_of(other)
            await second.writer.store(PatchThread("t", 1, "{}"))
            await second.writer.store(DropThread("t"))
            assert await first.reader.ask(FindThreads()) == []
            assert await first.reader.ask(FindThreads(counts=True)) == [0]
            with connected(path) as db:
                tables = {n for (n,) in db.execute("SELECT name FROM sqlite_master")}
            assert tables.isdisjoint({"thread_index", "facts", "thread_facts", "thread_marks"})
            await second.writer.store(PutThread("t", 1, '{"a": 1}'))
            await first.writer.store(PutThread("u", 2, '{"a": 1}'))
            found = await first.reader.ask(
                FindThreads(registered=True, order="thread_id", down=False)
            )
            assert [row.thread_id for row in found] == ["t", "u"]
            assert len(await second.reader.ask(FindThreads())) == 2

    @pytest.mark.promise("S097", "S199")
    @pytest.mark.parametrize(
        ("query", "values", "index"),
        [
            (schema.SELECT_BY_ID, (1, "", b"x"), "idx_checkpoints_lookup"),
            (schema.SELECT_HEAD, (1, ""), "idx_checkpoints_thread"),
            (schema.SELECT_NEWEST, (1, ""), "idx_checkpoints_thread"),
            (schema.COUNT_CHECKPOINTS, {"thread": "t", "namespace": None}, "idx_checkpoints"),
            (system_schema.SELECT_OPEN, ("t",), "idx_system_runs_busy"),
            (
                system_schema.SELECT_WAITING,
                {"graphs": '["g"]', "owned": 0, "now": 9, "limit": 5},
                "SEARCH e USING INDEX idx_system_runs_busy (thread_id=?)",
            ),
        ],
        ids=["by id", "head", "floor", "count", "open runs", "waiting runs"],
    )
    def test_lookups_use_an_index(self, path, query, values, index):
        """
        Reading the newest checkpoint or one by its id scans no table.
        """
        with connected(path) as db:
            plan = [row[3] for row in db.execute("EXPLAIN QUERY PLAN " + query, values)]

        assert any(index in line for line in plan)
        scans = [line for line in plan if line.startswith("SCAN") and "json_each" not in line]
        assert scans == []

    @pytest.mark.promise("S097", "S199", "S216")
    def test_listing_uses_an_index(self, path):
        """
        A page of a thread's history is read along the index.
        """
        names = ("namespace", "before", "step", "source")
        values = {**dict.fromkeys(names), "thread": 1, "limit": 5, "metadata": "{}"}
        values |= {"under": 1_000, "above": -1}
        with connected(path) as db:
            plan = [
                row[3]
                for row in db.execute("EXPLAIN QUERY PLAN " + schema.SELECT_PAGE[False], values)
            ]

        assert any("idx_checkpoints_thread" in line for line in plan)
        assert not any(line.startswith("SCAN c") for line in plan)

    @pytest.mark.promise("S199")
    def test_a_search_by_age_uses_an_index(self, path):
        """
        Which threads have something older than a time is asked thread by thread, along the index,
        not over all checkpoints.
        """
        with connected(path) as db:
            statement = "EXPLAIN QUERY PLAN " + schema.SELECT_THREADS_OLDER
            plan = [row[3] for row in db.execute(statement, (1,))]

        assert any("SEARCH c USING INDEX idx_checkpoints" in line for line in plan)
        assert not any(line.startswith("SCAN c") for line in plan)

    def test_a_finished_run_leaves_no_input_behind(self, path):
        """
        The input of a run is kept only until the run has left.
        """
        with connected(path) as db:
            runs = db.execute("SELECT mode, status, input FROM runs ORDER BY run").fetchall()

        assert runs == [("sync", "success", None), ("sync", "interrupted", None)]

    @pytest.mark.promise("S098")
    async def test_rows_are_numbered_in_the_order_of_storing(self, tmp_path):
        """
        Each row of a thread has the next number of a counter of its own.
        """
        file = tmp_path / "runs.db"
        async with SqliteSaver(file) as saver:
            await ab(saver).ainvoke({}, at())
        with connected(file) as db:
            seqs = [s for (s,) in db.execute("SELECT seq FROM checkpoints ORDER BY rowid")]

        assert seqs == [1, 2, 3, 4]

    @pytest.mark.promise("S106", "C31")
    def test_with_json_every_payload_can_be_read(self, tmp_path):
        """
        With a codec of the form "json" values and writes are JSON too; items of lists are
        behind their lengths.
        """
        with SqliteSaver(tmp_path / "runs.db", codec=Codec(form="json")) as saver:
            ab(saver).invoke({"foo": "x"}, at())
        with connected(tmp_path / "runs.db") as db:
            values = [json.loads(p) for (p,) in db.execute("SELECT payload FROM blobs")]
            written = [json.loads(p) for (p,) in db.execute("SELECT payload FROM writes")]
            lists = [
                json.loads(f)
                for (p,) in db.execute("SELECT payload FROM ranges")
                for f in frames(p)
            ]

        assert values == [{"foo": "x"}, "x", "a", "b"]
        assert ["bar", ["a"]] in written[1]
        assert lists == [["a"], ["b"]]


def _hex(*names: str | None) -> list[str]:
    return [(name or "").replace("-", "").upper() for name in names]


def _texts(module):
    """The statements of a module: alone, or in a tuple or dict of them."""
    begin = re.compile(r"\s*(SELECT|WITH|UPDATE|DELETE|INSERT)\b")
    for name, value in vars(module).items():
        if isinstance(value, dict):
            value = tuple(value.values())  # noqa: PLW2901 - of oldest first or not
        texts = value if isinstance(value, tuple) else (value,)
        if not name.startswith("_"):
            yield from (text for text in texts if isinstance(text, str) and begin.match(text))


def test_no_statement_looks_at_all_runs_or_values(path):
    """
    The number of runs, values and writes that a statement reads doesn't grow with other threads.
    """
    slow = []
    with connected(path) as db:
        for text in _texts(schema):
            names = dict.fromkeys(re.findall(r":(\w+)", text), 1)
            given = names or (1,) * text.count("?")
            plan = db.execute("EXPLAIN QUERY PLAN " + text, given).fetchall()
            scanned = re.compile(r"SCAN (runs|r|blobs|b|ranges|writes|w|events)\b")
            slow += [(text, row[3]) for row in plan if scanned.match(row[3])]

    assert slow == []
    assert len([*_texts(schema)]) > 40
