"""Resealing of database rows: new payloads and checksums; damaged rows are refused."""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from actorgraph.codec.frames import with_checksums
from actorgraph.savers.checksums import blob_sum, run_sum, writes_sum
from actorgraph.savers.soundness import check_blob, check_items, check_run, check_writes
from actorgraph.values.commits import LedgerRow, StoredClaim
from actorgraph.values.retention import Resealer

_Rows = Iterable[tuple[Any, ...]]


class Remaking(msgspec.Struct, frozen=True):
    """Reseals the rows of a thread.

    Each method takes rows as the statements of a backend's `resealing` select them, and yields
    tuples of payload, checksum (rows of `ranges` have none) and the row's key.

    Attributes:
        resealer: makes the new payloads.
        old: the id of the thread that the rows belong to.
        new: the id of the thread that the new rows belong to: `old`, or that of a copy.
    """

    resealer: Resealer
    old: str
    new: str

    def values(self, rows: _Rows) -> Iterator[tuple[Any, ...]]:
        """Rows of `blobs`."""
        for *key, found, crc in rows:
            namespace, channel, version = key
            payload = check_blob(self.old, namespace, channel, version, (found, crc))
            made = self.resealer.value(namespace, channel, version, payload)
            yield made, blob_sum(self.new, namespace, channel, version, made), *key

    def items(self, rows: _Rows) -> Iterator[tuple[Any, ...]]:
        """Rows of `ranges`."""
        for namespace, channel, lineage, *columns in rows:
            start, _, payload = check_items(self.old, namespace, channel, tuple(columns))
            made = self.resealer.items(namespace, channel, lineage, start, payload)
            yield with_checksums(made), namespace, channel, lineage, start

    def writes(self, rows: _Rows) -> Iterator[tuple[Any, ...]]:
        """Rows of `writes`."""
        for namespace, *columns, crc in rows:
            row = check_writes(self.old, namespace, LedgerRow(*columns), crc)
            made = msgspec.structs.replace(row, payload=self.resealer.writes(namespace, row))
            key = (row.base, row.task, row.index, row.generation)
            yield made.payload, writes_sum(self.new, namespace, made), namespace, *key

    def inputs(self, rows: _Rows) -> Iterator[tuple[Any, ...]]:
        """Rows of `runs` that have an input."""
        for *columns, namespace, crc in rows:
            row = check_run(self.old, namespace, StoredClaim(*columns), crc)
            made = self.resealer.input(row.run, columns[-1])
            yield made, run_sum(self.new, row.run, row.head, row.mode, made), row.run
