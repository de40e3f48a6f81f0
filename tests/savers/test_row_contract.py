"""The contract of rows, docs/reference/saver-rows.md, agrees with the code."""

import re
from typing import get_args

import pytest

from actorgraph.savers.judge import ThreadState
from actorgraph.values.alarms import AlarmRow
from actorgraph.values.commits import (
    BlobRow,
    CheckpointRow,
    LedgerRow,
    MergeRow,
    Query,
    RangeRow,
    Request,
    StoredClaim,
)
from actorgraph.values.systems import EventRow, OwnerRow, RunRow
from tests.support.source_files import ROOT

PAGE = (ROOT / "docs" / "reference" / "saver-rows.md").read_text("utf-8")
ROWS = [
    *(CheckpointRow, BlobRow, RangeRow, MergeRow, LedgerRow),
    *(ThreadState, StoredClaim, RunRow, EventRow, OwnerRow, AlarmRow),
]
TABLE = re.compile(r"^[^|\n]*`(\w+)`[^|\n]*:\n\n((?:\|.*\n)+)", re.MULTILINE)


def cells(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def tables():
    """Row -> its columns, each with the meaning and when it is absent."""
    return {
        name: [cells(line) for line in table.splitlines()[2:]]
        for name, table in TABLE.findall(PAGE)
    }


def first_cells(heading):
    """The names in the first column of the table of a section."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.__name__)
def test_each_column_is_described(row):
    """
    The table of a row has its columns, in the order of the class, each with a meaning.
    """
    table = tables()[row.__name__]

    assert [name.strip("`") for name, _, _ in table] == list(row.__struct_fields__)
    assert [name for name, meaning, absent in table if not meaning or not absent] == []


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.__name__)
def test_columns_that_may_be_none_say_when(row):
    """
    A column whose type has None is nowhere said to be there always.
    """
    optional = {name for name, kind in row.__annotations__.items() if "None" in str(kind)}
    never = {name.strip("`") for name, _, absent in tables()[row.__name__] if absent == "never"}

    assert optional & never == set()


def test_each_table_has_keys_writers_removal_and_order():
    """
    Each section of rows says who writes them, when they go, and in which order they are read.
    """
    sections = PAGE.split("\n## ")[1:-2]

    for section in sections:
        title = section.partition("\n")[0]
        words = ["Key:"] + ([] if title == "Leases" else ["Written by:", "Removed by:", "Order:"])
        assert [word for word in words if word not in section] == [], title


@pytest.mark.parametrize(("heading", "kinds"), [("Requests", Request), ("Queries", Query)])
def test_each_request_and_query_is_listed(heading, kinds):
    """
    The tables have every request and query of the port, each once.
    """
    assert sorted(first_cells(heading)) == sorted(kind.__name__ for kind in get_args(kinds))
