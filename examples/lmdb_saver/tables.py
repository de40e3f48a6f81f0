"""The tables of a saver in LMDB, the keys of their rows, and the environments of this process.

A row's key begins with the number of its thread, so that a thread is a range of keys in each table.
Ids are in keys as they are; names of any length and alphabet as a digest, and in the value in full.

threads      digest of the thread id -> `Thread`
numbers      thread -> thread id
heads        thread, namespace -> namespace, checkpoint id
checkpoints  thread, sequence -> `Point`
ids          thread, namespace, checkpoint id, sequence -> nothing
blobs        thread, namespace, channel, version -> namespace, `BlobRow`
ranges       thread, namespace, channel, lineage, start -> namespace, `RangeRow`
ledger       thread, namespace, base, task, index, generation -> namespace, `LedgerRow`
runs         run -> `RunRow`
open         digest of the thread id, run -> nothing: the runs that have not ended
events       run, place -> `EventRow`
owners       owner -> the time at which its lease ends, in seconds since 1970
"""

import threading
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

import lmdb
import msgspec

from actorgraph.savers.judge import ThreadState
from actorgraph.values.commits import BlobRow, CheckpointRow, LedgerRow, RangeRow, StoredClaim
from actorgraph.values.systems import EventRow, RunRow

_OFFSET = 1 << 63
"""Added to numbers in keys: negative ones sort before positive ones."""


class Thread(msgspec.Struct):
    """The row of a thread.

    Attributes:
        state: as `judge` takes it, without heads: they are rows of their own.
        claim: of the run that claimed the thread last, also after its end.
    """

    state: ThreadState
    claim: StoredClaim | None = None

    @property
    def number(self) -> int:
        """The thread's number, with which the keys of its rows begin."""
        assert self.state.row is not None
        return self.state.row

    @property
    def open_run(self) -> StoredClaim | None:
        """The claim of the run that holds the thread; None if no run does."""
        holds = self.claim is not None and self.claim.run == self.state.run
        return self.claim if holds else None


class Point(msgspec.Struct, frozen=True):
    """A checkpoint: its place, and its columns without the rows of its values."""

    namespace: str
    sequence: int
    row: CheckpointRow


KINDS: dict[str, Any] = {
    "threads": Thread,
    "numbers": str,
    "heads": tuple[str, bytes],
    "checkpoints": Point,
    "ids": None,
    "blobs": tuple[str, BlobRow],
    "ranges": tuple[str, RangeRow],
    "ledger": tuple[str, LedgerRow],
    "runs": RunRow,
    "open": None,
    "events": EventRow,
    "owners": float,
}
"""Table -> the type of its rows."""
OF_THREAD = ("heads", "checkpoints", "ids", "blobs", "ranges", "ledger")
"""The tables whose keys begin with the number of a thread."""

_DECODERS = {name: msgspec.msgpack.Decoder(kind) for name, kind in KINDS.items()}
_encode = msgspec.msgpack.Encoder().encode


def key(*parts: int | str | bytes) -> bytes:
    """The key of a row: numbers in their order, ids as they are, names as digests."""
    made = b""
    for part in parts:
        if isinstance(part, int):
            made += (part + _OFFSET).to_bytes(8)
        elif isinstance(part, str):
            made += blake2b(part.encode(), digest_size=16).digest()
        else:
            made += part
    return made


def number_of(found: bytes) -> int:
    """The number at the end of a key."""
    return int.from_bytes(found[-8:]) - _OFFSET


class Rows:
    """The rows of all tables, as one transaction of LMDB sees them."""

    def __init__(self, txn: lmdb.Transaction, tables: dict[str, Any]) -> None:
        self.txn = txn
        self.tables = tables

    def inside(self, txn: lmdb.Transaction) -> "Rows":
        """The rows as a transaction inside this one sees them."""
        return Rows(txn, self.tables)

    def get(self, table: str, *parts: int | str | bytes) -> Any:
        """Read a row; None if it is not there."""
        found = self.txn.get(key(*parts), db=self.tables[table])
        return None if found is None else _DECODERS[table].decode(found)

    def has(self, table: str, *parts: int | str | bytes) -> bool:
        """Whether a row is there."""
        return self.txn.get(key(*parts), db=self.tables[table]) is not None

    def put(self, table: str, row: Any, *parts: int | str | bytes, new: bool = False) -> None:
        """Store a row; with `new` only if its key has none."""
        self.txn.put(key(*parts), _encode(row), overwrite=not new, db=self.tables[table])

    def delete(self, table: str, *parts: int | str | bytes) -> None:
        """Remove a row, if it is there."""
        self.txn.delete(key(*parts), db=self.tables[table])

    def under(self, table: str, *parts: int | str | bytes) -> Iterator[tuple[bytes, Any]]:
        """Keys and rows of the keys that begin so, in order."""
        return self.between(table, key(*parts), key(*parts))

    def between(
        self, table: str, first: bytes, prefix: bytes = b"", *, back: bool = False
    ) -> Iterator[tuple[bytes, Any]]:
        """Keys and rows from a key on that begin so; with `back` from below the key downwards."""
        decode = _DECODERS[table].decode
        with self.txn.cursor(db=self.tables[table]) as cursor:
            there = cursor.set_range(first)
            if back:
                there = cursor.prev() if there else cursor.last()
            while there and (found := bytes(cursor.key())).startswith(prefix):
                yield found, decode(cursor.value())
                there = cursor.prev() if back else cursor.next()

    def clear(self, table: str, *parts: int | str | bytes) -> int:
        """Remove all rows whose keys begin so; return how many there were."""
        keys = [found for found, _ in self.under(table, *parts)]
        return self.drop(table, keys)

    def drop(self, table: str, keys: list[bytes]) -> int:
        """Remove rows by their keys; return how many."""
        for found in keys:
            self.txn.delete(found, db=self.tables[table])
        return len(keys)


class Environment:
    """An environment of LMDB with its tables: one for all savers of a process over one folder.

    LMDB locks by process: a second environment over the same folder would break the first one's.

    Args:
        path: the folder; it is made if it is missing.
        size: the most bytes that it may grow to.
    """

    def __init__(self, path: Path, size: int) -> None:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.users = 0
        self.env = lmdb.open(str(path), map_size=size, max_dbs=len(KINDS), mode=0o600)
        try:
            self.tables = {name: self.env.open_db(name.encode()) for name in KINDS}
        except BaseException:
            self.env.close()
            raise


_OPEN: dict[Path, Environment] = {}
_LOCK = threading.Lock()


def acquire(path: Path, size: int) -> Environment:
    """The process's environment over a folder, opened by its first user."""
    with _LOCK:
        found = _OPEN.get(path)
        if found is None:
            found = _OPEN[path] = Environment(path, size)
        found.users += 1
        return found


def release(path: Path) -> None:
    """Give an environment back; its last user closes it."""
    with _LOCK:
        found = _OPEN[path]
        found.users -= 1
        if not found.users:
            del _OPEN[path]
            found.env.close()
