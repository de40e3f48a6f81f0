"""Reading of large values: by a blob handle, which fills the bytes that the caller gets.

A SELECT copies a value twice: into the statement, and from there into the `bytes`. Each copy of
a large one is new memory, which costs several times the reading itself. So a statement over values
returns NULL in place of a large one, with the number of its row, and the value is read from there.

Both happen in the caller's transaction, so they see the same state of the database.
"""

import re
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

LARGE_BYTES = 262_144
"""Bytes from which on a value is read by a handle; for smaller ones, opening it costs more."""

_VALUE = re.compile(r"\{(\w+)\.(\w+)\}")
_ROW = re.compile(r"\{(\w+) in (\w+)\}")


class ValueStatement(NamedTuple):
    """A SELECT of rows with one value each; made by `over_values`.

    Attributes:
        plain: its text. All values are in the rows.
        split: the text that leaves large values out. Two more columns are at the end: the table's
            name, and the number of the row if its value was left out.
        column: name of the column with the value.
        at: place of that column in the rows.
    """

    plain: str
    split: str
    column: str
    at: int


def over_values(text: str, at: int) -> ValueStatement:
    """Make a statement over values.

    Args:
        text: of a SELECT, or of several joined by UNION ALL. In each of them `{alias.column}` is
            the value, and `{alias in table}` follows the last column.
        at: place of the value among the columns.
    """
    column = _VALUE.findall(text)[0][1]

    def is_large(alias: str) -> str:
        # `length` of a blob needs only the row's header; that of a text would read it as a whole.
        value = f"{alias}.{column}"
        return f"CASE typeof({value}) WHEN 'blob' THEN length({value}) >= {LARGE_BYTES} ELSE 0 END"

    plain = _ROW.sub("", _VALUE.sub(r"\1.\2", text))
    split = _VALUE.sub(
        lambda found: f"CASE {is_large(found[1])} WHEN 0 THEN {found[1]}.{found[2]} END", text
    )
    split = _ROW.sub(
        lambda found: f", '{found[2]}', CASE {is_large(found[1])} WHEN 1 THEN {found[1]}.rowid END",
        split,
    )
    return ValueStatement(plain, split, column, at)


def fetch_values(
    connection: sqlite3.Connection,
    statement: ValueStatement,
    parameters: Sequence[Any] | Mapping[str, Any],
) -> list[tuple[Any, ...]]:
    """Return all rows of a statement over values, as its plain text would.

    Args:
        connection: in a transaction, so that rows and values belong together.
    Raises:
        sqlite3.Error: the database failed.
    """
    try:
        found = connection.execute(statement.split, parameters).fetchall()
    except sqlite3.OperationalError as error:
        # The tables of older files are WITHOUT ROWID until a vacuum rebuilds them.
        if "rowid" not in str(error):
            raise
        return connection.execute(statement.plain, parameters).fetchall()
    return [
        row[:-2] if row[-1] is None else _with_value(connection, statement, row) for row in found
    ]


def _with_value(
    connection: sqlite3.Connection, statement: ValueStatement, row: tuple[Any, ...]
) -> tuple[Any, ...]:
    *columns, table, number = row
    with connection.blobopen(table, statement.column, number, readonly=True) as blob:
        columns[statement.at] = blob.read()
    return tuple(columns)
