"""Re-encrypt the rows of a thread: for a copy of it, or with the key that encrypts now.

An encrypted value is bound to its thread, so the rows of a copy are decrypted and encrypted
again. This happens inside the saver's one transaction: a copy exists whole and readable, or not.
"""

from actorgraph.codec.codec import Codec
from actorgraph.codec.encryption import input_of, items_at, value_at, writes_of
from actorgraph.codec.records import frame, frames
from actorgraph.values.commits import LedgerRow


class ThreadResealer:
    """Re-encrypts the rows of one thread.

    Args:
        source: id of the thread that the rows were written for.
        target: id of the thread that they will be stored in; may be the same.
    """

    def __init__(self, codec: Codec, source: str, target: str) -> None:
        self._codec = codec
        self._source = source
        self._target = target

    def value(self, namespace: str, channel: str, version: int, payload: bytes) -> bytes:
        """See `Resealer`."""
        where = (namespace, channel, version)
        return self._codec.reencrypt(
            payload, value_at(self._source, *where), value_at(self._target, *where)
        )

    def items(
        self, namespace: str, channel: str, lineage: int, start: int, payload: bytes
    ) -> bytes:
        """See `Resealer`."""
        made: list[bytes] = []
        # A row has several frames, each bound to the position of its first item.
        for part in frames(payload):
            where = (namespace, channel, lineage, start)
            place = items_at(self._source, *where)
            made.append(frame(self._codec.reencrypt(part, place, items_at(self._target, *where))))
            start += self._codec.count(part, place)
        return b"".join(made)

    def writes(self, namespace: str, row: LedgerRow) -> bytes:
        """See `Resealer`."""
        return self._codec.reencrypt(
            row.payload,
            writes_of(self._source, namespace, row),
            writes_of(self._target, namespace, row),
        )

    def input(self, run: bytes, payload: bytes) -> bytes:
        """See `Resealer`."""
        return self._codec.reencrypt(
            payload, input_of(self._source, run), input_of(self._target, run)
        )
