"""What the records of checkpoints have in common is stored once: a record is a shape and numbers.

Records of one graph differ in their numbers, mostly: versions, lengths of lists. The text without
them is a shape, one row of `shapes`; a checkpoint's row has the shape's id and the numbers as a
JSON list, a tenth of the text. The view `checkpoints` puts them together with the server's own
`format`, so a person and every query of the saver see the whole record.

A shape is stored when a record of it comes a second time: what comes once stands as it is. That
happens in a transaction of its own, before the batch: shapes without checkpoints do no harm.
"""

import re
from hashlib import blake2b
from typing import Any

from psycopg import Connection
from psycopg.rows import tuple_row

from actorgraph.savers.postgres.columns import Numbers, Texts
from actorgraph.storage.postgres.limits import USE_SCHEMA

WHOLE = 0
"""The shape of a record that stands as it is."""
SHAPES_MAX = 2_000
"""Shapes that one saver uses; a program with more has graphs that are made anew all the time."""
_SEEN_MAX = 4_000
_NUMBER = re.compile(r"([0-9](?:(?<=[1-9])\d*|(?<=[:\[,]0)))(?=[,\]}])")
"""Digits that are a number of JSON, at the end of a value or of a name: what is taken out of a name
is put back as it was. It begins with a digit and no look behind, for speed."""
_HOLE = "\0"

ADD_SHAPES = """
INSERT INTO shapes SELECT * FROM unnest(%s::bigint[], %s::text[]) ON CONFLICT DO NOTHING
"""
SELECT_SHAPES = "SELECT shape, form FROM shapes WHERE shape = ANY(%s::bigint[])"


class Shapes:
    """The shapes that a saver knows to be stored; used by its writing thread only."""

    def __init__(self) -> None:
        self._stored: dict[str, int] = {}
        self._seen: set[str] = set()
        self._wanted: set[str] = set()

    def taken(self, record: str) -> tuple[int, str]:
        """What a checkpoint's row has of its record: a shape and the numbers, or all of it."""
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
        """Somebody has emptied the tables."""
        self._stored.clear()
        self._wanted.clear()

    def store(self, connection: Connection[Any], begin: tuple[str, str, str]) -> None:
        """Store the shapes that are wanted, in a transaction of its own; most often none.

        Args:
            connection: in autocommit mode, used by nobody else meanwhile.
            begin: the parameters of `USE_SCHEMA`.
        Raises:
            psycopg.Error: none is stored; they are wanted again when they come again.
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
            found = dict(cursor.execute(SELECT_SHAPES, (numbers,)).fetchall())
        for key, text in forms.items():
            shape = ids[key]
            # Two texts of one id: one of them was first, the other is never taken apart.
            self._stored[key] = shape if found.get(shape) == text else WHOLE
            self._seen.discard(key)


def parted(record: str) -> tuple[str, str]:
    """A record's text without its numbers, and these as a JSON list."""
    parts = _NUMBER.split(record)
    return _HOLE.join(parts[::2]), f"[{','.join(parts[1::2])}]"


def form(key: str) -> str:
    """A shape as the server's `format` takes it."""
    return key.replace("%", "%%").replace(_HOLE, "%s")


def _id_of(text: str) -> int:
    """A shape's id: four bytes of its hash, so that all savers give it the same."""
    found = int.from_bytes(blake2b(text.encode(), digest_size=4).digest(), signed=True)
    return found or 1
