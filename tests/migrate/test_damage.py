"""Damaged rows of LangGraph's: their thread stays, the others move, and the report says why."""

import shutil
import sqlite3
from contextlib import closing

import pytest

from actorgraph import InMemorySaver
from actorgraph.migrate import amigrate
from tests.migrate.programs import STATES

DAMAGES = [
    *(
        ("checkpoints", "metadata", value)
        for value in (b"{broken", b"\xff\xfe", b"[1]", b"[" * 10**5)
    ),
    *(
        ("checkpoints", "checkpoint", value)
        for value in (b"", b"\x80", b"\x90", b"\x91" * 10**5, b"\xc1\x01x", b"\x01")
    ),
    ("checkpoints", "checkpoint", b"\x84\xa1v\x04\xaechannel_values\x01"),
    ("checkpoints", "checkpoint_id", "no id"),
    ("checkpoints", "metadata", b'{"step": "x"}'),
    ("checkpoints", "metadata", b'{"step": 0, "parents": 3}'),
    ("checkpoints", "type", "strange"),
    ("writes", "value", b"\xc1"),
    ("writes", "value", b"\x91" * 10**5),
]

NEWEST = {
    "checkpoints": "SELECT max(rowid), checkpoint_id FROM checkpoints WHERE thread_id = ?",
    "writes": "SELECT max(rowid), checkpoint_id FROM writes WHERE thread_id = ? AND type <> 'null'",
}
CHANGE = {
    ("checkpoints", "metadata"): "UPDATE checkpoints SET metadata = ? WHERE rowid = ?",
    ("checkpoints", "checkpoint"): "UPDATE checkpoints SET checkpoint = ? WHERE rowid = ?",
    ("checkpoints", "checkpoint_id"): "UPDATE checkpoints SET checkpoint_id = ? WHERE rowid = ?",
    ("checkpoints", "type"): "UPDATE checkpoints SET type = ? WHERE rowid = ?",
    ("writes", "value"): "UPDATE writes SET value = ? WHERE rowid = ?",
}


@pytest.mark.one_loop
@pytest.mark.parametrize(("table", "column", "value"), DAMAGES)
async def test_a_damaged_row_stops_its_own_thread_alone(table, column, value, filled, tmp_path):
    """
    With any content in one row, the call raises nothing: that row's thread is refused with the
    place, and each other thread moves, those before it and those behind it.
    """
    found: dict[str, str] = {}
    for bad in sorted(STATES):
        source = tmp_path / f"{bad}.db"
        shutil.copy(filled.path, source)
        with closing(sqlite3.connect(source)) as connection, connection:
            row = connection.execute(NEWEST[table], (bad,)).fetchone()
            connection.execute(CHANGE[table, column], (value, row[0]))
        async with InMemorySaver() as target:
            report = await amigrate(source, target)
            there = await target.alist_threads()
        (refused,) = report.refused
        found[bad] = refused.thread_id
        assert sorted(there) == sorted(set(STATES) - {bad})
        assert all((row[1] if column != "checkpoint_id" else value) in p for p in refused.problems)

    assert found == {bad: bad for bad in STATES}
