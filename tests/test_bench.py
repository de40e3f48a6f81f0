"""The benchmark harness: what its floors write, and how it judges. The figures are not tested."""

import contextlib
import sqlite3

import pytest

from tests.bench import catalogue, floors, report, waiting
from tests.bench.catalogue import FLOOR, RIVAL, SUBJECT, WAITING, Against, Comparison
from tests.bench.runner import Outcome

SCHEMA = """
CREATE TABLE threads (thread TEXT PRIMARY KEY, epoch INTEGER, next_seq INTEGER);
CREATE TABLE checkpoints (
    thread TEXT, seq INTEGER, record TEXT, step INTEGER AS (record -> 'step'),
    PRIMARY KEY (thread, seq)
) WITHOUT ROWID;
CREATE INDEX by_step ON checkpoints (step);
"""


@pytest.fixture
def finished_run(tmp_path):
    """A database as a run of two threads with three checkpoints each leaves it."""
    path = tmp_path / "run.db"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript(SCHEMA)
        for thread in ("a", "b"):
            connection.execute("INSERT INTO threads VALUES (?, 1, 3)", [thread])
            for seq in range(3):
                row = [thread, seq, f'{{"step": {seq}}}']
                connection.execute("INSERT INTO checkpoints VALUES (?, ?, ?)", row)
    return path


def outcome_of(name, **figures):
    """An outcome of a measure counted in steps/s, with these rates."""
    (measure,) = catalogue.select([name], quick=False)
    outcome = Outcome(measure)
    for side, rates in figures.items():
        outcome.runs[side] = [{"units": rate, "seconds": 1} for rate in rates]
    return outcome


class TestReplay:
    """`floors.replay`: the same rows, stored by plain sqlite3."""

    def test_it_stores_every_row_and_moves_the_head_once_per_checkpoint(self, finished_run):
        """
        The replay has the rows of the run, and each head went up by its thread's checkpoints.
        """
        figures = floors.replay(finished_run, transactions=2, per="test", units=6)

        with contextlib.closing(sqlite3.connect(finished_run.with_suffix(".floor"))) as replayed:
            heads = replayed.execute("SELECT * FROM threads").fetchall()
            steps = replayed.execute("SELECT thread, seq, step FROM checkpoints").fetchall()
        assert heads == [("a", 1, 6), ("b", 1, 6)]
        assert steps == [(thread, seq, seq) for thread in "ab" for seq in range(3)]
        assert (figures["rows"], figures["head_updates"], figures["transactions"]) == (8, 6, 2)

    def test_a_table_in_key_order_is_written_as_threads_run(self, finished_run):
        """
        Rows that a B-tree sorted by thread are dealt out again, one per thread in turn.
        """
        steps = floors.read(finished_run).tables[1]

        assert [row[:2] for row in steps.rows] == [(t, seq) for seq in range(3) for t in "ab"]

    def test_rows_are_cut_evenly_and_in_order(self):
        """
        Every transaction gets its share: sizes differ by at most one row, and none is lost.
        """
        parts = floors.cut([(n,) for n in range(7)], 3)

        assert [row for part in parts for row in part] == [(n,) for n in range(7)]
        assert sorted(map(len, parts)) == [2, 2, 3]


class TestWaitingTasks:
    """`waiting.replay`: the same rows, each superstep's handed over by a task that waits for it."""

    async def test_it_stores_what_the_run_stored(self, finished_run):
        """
        Every row is there, and each head went up by its thread's checkpoints.
        """
        figures = await waiting.replay(finished_run, units=6)

        with contextlib.closing(sqlite3.connect(finished_run.with_suffix(".waiting"))) as replayed:
            heads = replayed.execute("SELECT * FROM threads ORDER BY thread").fetchall()
            steps = replayed.execute("SELECT thread, seq, step FROM checkpoints").fetchall()
        assert heads == [("a", 1, 6), ("b", 1, 6)]
        assert steps == [(thread, seq, seq) for thread in "ab" for seq in range(3)]
        assert figures["batches"]["messages"] == 6

    def test_the_rows_of_a_superstep_stay_together(self, finished_run):
        """
        A thread's own row is written with its first superstep, before the head moves.
        """
        first, *later = waiting.steps_of(floors.read(finished_run))[0]

        assert [sql.split()[0] for sql, _ in first] == ["INSERT", "INSERT", "UPDATE"]
        assert [[sql.split()[0] for sql, _ in step] for step in later] == [["INSERT", "UPDATE"]] * 2


class TestVerdict:
    """`report`: the median against the bar."""

    def test_a_rate_is_compared_with_the_rivals_median(self):
        """
        One slow repetition does not decide; the ratio is median over median.
        """
        outcome = outcome_of("loop", **{SUBJECT: [90, 10, 80], RIVAL: [10, 11, 10]})
        bar = Comparison(Against.RIVAL, at_least=8)

        assert report.ratio(outcome, bar) == 8
        assert report.verdict(report.ratio(outcome, bar), bar) == "pass"

    def test_a_cost_is_a_multiple_of_its_floor(self):
        """
        A lower-is-better figure above the allowed multiple fails.
        """
        outcome = outcome_of("sqlite-one", **{SUBJECT: [1000], FLOOR: [4000]})
        bar = Comparison(Against.COST_OVER_FLOOR, at_most=3)

        assert report.ratio(outcome, bar) == 4
        assert report.verdict(report.ratio(outcome, bar), bar) == "FAIL"

    def test_a_share_of_what_waiting_tasks_get_has_a_line_of_its_own(self):
        """
        One figure is compared with both floors, each with its own side.
        """
        figures = {SUBJECT: [100], FLOOR: [1000], WAITING: [400]}
        outcome = outcome_of("threads-sync", **figures)
        shares = [
            report.shown_ratio(report.ratio(outcome, each), each.against)
            for each in outcome.measure.comparisons
        ]

        assert shares[1:] == ["10%", "25%"]

    def test_an_unmeasured_ratio_does_not_pass(self):
        """
        Without LangGraph's side the ratio is missing, and the verdict says so.
        """
        outcome = outcome_of("loop", **{SUBJECT: [90]})
        (bar,) = outcome.measure.comparisons

        assert report.ratio(outcome, bar) is None
        assert report.verdict(None, bar) == "not measured"
