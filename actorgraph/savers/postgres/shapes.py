"""Store the common text of checkpoint records once, as shapes.

Records of one graph differ mostly in their numbers: versions, lengths of lists. The text without
them is a shape, one row of the table `shapes`; a checkpoint's row has the shape's id and the
numbers as a JSON list, about a tenth of the text. The view `checkpoints` puts them together with
the server's `format`, so queries of the view show whole records.

A shape is stored when a record of it is written for the second time; the first one is stored
whole. Shapes are stored in a transaction of their own, before the batch: a shape without
checkpoints does no harm.
"""

import re
from hashlib import blake2b
from typing import Any

from psycopg import Connection
from psycopg.errors import NotNullViolation
from psycopg.rows import tuple_row

from actorgraph.savers.postgres.columns import Numbers, Texts
from actorgraph.storage.postgres.timeouts import USE_SCHEMA

WHOLE = 0
"""The shape id of a record that is stored whole."""
SHAPE_MISSING = "the shape of its record is missing"
"""The reason in errors about a checkpoint whose shape is gone."""
SHAPES_MAX = 2_000
"""Shapes that one saver stores at most: a program with more makes new graphs all the time."""
_SEEN_MAX = 4_000
_NUMBER = re.compile(r"([0-9](?:(?<=[1-9])\d*|(?<=[:\[,]0)))(?=[,\]}])")
"""A JSON number, or digits at the end of a name, which does no harm: they are put back as they
were. The pattern begins with a digit and not with a lookbehind, for speed."""
_HOLE = "\0"

ADD_SHAPES = """
INSERT INTO shapes SELECT * FROM unnest(%s::bigint[], %s::text[]) ON CONFLICT DO NOTHING
"""
SELECT_SHAPES = "SELECT shape, form FROM shapes WHERE shape = ANY(%s::bigint[])"


class Shapes:
    """Splits records into shapes and numbers; knows which shapes are stored.

    Used by the saver's writing thread only.
    """

    def __init__(self) -> None:
        self._stored: dict[str, int] = {}
        self._seen: set[str] = set()
        self._wanted: set[str] = set()

    def split(self, record: str) -> tuple[int, str]:
        """The columns `shape` and `record` of a record: the numbers, or all of it for WHOLE."""
        key, numbers = parted(record)
        shape = self._stored.get(key)
        if shape is None:
            self._note(key)
            return WHOLE, record
        return (WHOLE, record) if shape == WHOLE else (shape, numbers)

    def _note(self, key: str) -> None:
        if key not in self._seen:
            if len(self._seen) >= _SEEN_MAX:
                self._seen.clear()
            self._seen.add(key)
        elif len(self._stored) + len(self._wanted) < SHAPES_MAX:
            self._wanted.add(key)

    def forget(self) -> None:
        """Forget which shapes are stored, since the tables may be others, or emptied."""
        self._stored.clear()
        self._wanted.clear()

    def store(self, connection: Connection[Any], begin: tuple[str, str, str]) -> None:
        """Store the shapes that `split` has asked for, in a transaction; most often none.

        Args:
            connection: in autocommit mode, for this call alone.
            begin: the parameters of `USE_SCHEMA`.
        Raises:
            psycopg.Error: none is stored; `split` asks for them again.
        """
        if not self._wanted:
            return
        forms = {key: form(key) for key in sorted(self._wanted)}
        self._wanted.clear()
        ids = {key: _id_of(text) for key, text in forms.items()}
        numbers = Numbers(ids.values())
        with connection.transaction():
            cursor = connection.cursor(row_factory=tuple_row, binary=True)
            cursor.execute(USE_SCHEMA, begin)
            cursor.execute(ADD_SHAPES, (numbers, Texts(forms.values())))
            texts = dict(cursor.execute(SELECT_SHAPES, (numbers,)).fetchall())
        for key, text in forms.items():
            shape = ids[key]
            # If two texts have one id, the first to be stored has it; records of the other one
            # are always stored whole.
            self._stored[key] = shape if texts.get(shape) == text else WHOLE
            self._seen.discard(key)


def is_missing(error: Exception) -> bool:
    """Whether the server refused a checkpoint since its shape is not stored."""
    if not isinstance(error, NotNullViolation):
        return False
    return (error.diag.table_name, error.diag.column_name) == ("points", "record")


def parted(record: str) -> tuple[str, str]:
    """Split a record's text into the text without its numbers, and the numbers as a JSON list."""
    parts = _NUMBER.split(record)
    return _HOLE.join(parts[::2]), f"[{','.join(parts[1::2])}]"


def form(key: str) -> str:
    """A shape as a template of the server's `format`."""
    return key.replace("%", "%%").replace(_HOLE, "%s")


def _id_of(text: str) -> int:
    """A shape's id: four bytes of its hash, so that all savers compute the same id."""
    number = int.from_bytes(blake2b(text.encode(), digest_size=4).digest(), signed=True)
    return number or 1  # 0 is WHOLE
