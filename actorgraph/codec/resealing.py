"""Encrypted rows for another thread, or under the key that encrypts now.

An encrypted value is bound to its thread, so the rows of a copy are decrypted and encrypted
again, inside the saver's one transaction: a copy is there whole and readable, or not at all.
"""

from actorgraph.codec.codec import Codec
from actorgraph.codec.frames import frame, frames
from actorgraph.codec.places import input_of, items_at, value_at, writes_of
from actorgraph.values.commits import LedgerRow


class ThreadResealer:
    """Moves the rows of one thread to another, or seals them anew where they are.

    Args:
        source: the thread that the rows were written for.
        target: the one that they are stored in; maybe the same.
    """

    def __init__(self, codec: Codec, source: str, target: str) -> None:
        self._codec = codec
        self._source = source
        self._target = target

    def value(self, namespace: str, channel: str, version: int, payload: bytes) -> bytes:
        """See `Resealer`."""
        where = (namespace, channel, version)
        return self._codec.moved(
            payload, value_at(self._source, *where), value_at(self._target, *where)
        )

    def items(
        self, namespace: str, channel: str, lineage: int, start: int, payload: bytes
    ) -> bytes:
        """See `Resealer`. Each frame of the row is bound to the position of its first item."""
        made: list[bytes] = []
        for part in frames(payload):
            where = (namespace, channel, lineage, start)
            place = items_at(self._source, *where)
            made.append(frame(self._codec.moved(part, place, items_at(self._target, *where))))
            start += self._codec.count(part, place)
        return b"".join(made)

    def writes(self, namespace: str, row: LedgerRow) -> bytes:
        """See `Resealer`."""
        return self._codec.moved(
            row.payload,
            writes_of(self._source, namespace, row),
            writes_of(self._target, namespace, row),
        )

    def input(self, run: bytes, payload: bytes) -> bytes:
        """See `Resealer`."""
        return self._codec.moved(payload, input_of(self._source, run), input_of(self._target, run))
