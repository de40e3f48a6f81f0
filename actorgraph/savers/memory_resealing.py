"""Reseal the payloads of a thread in memory: encrypt them with another key."""

import msgspec

from actorgraph.savers.memory_log import MemoryThread
from actorgraph.values.retention import Resealer


def reseal(thread: MemoryThread, resealer: Resealer) -> None:
    """Replace the payload of each row of a thread: of all rows, or of none.

    Raises: what the resealer raises; nothing has changed then.
    """
    # All new tables are built before the first is assigned, so an error changes nothing.
    blobs = {key: resealer.value(*key, payload) for key, payload in thread.blobs.items()}
    ranges = {
        key: {
            start: (count, resealer.items(*key, start, payload))
            for start, (count, payload) in rows.items()
        }
        for key, rows in thread.ranges.items()
    }
    replace = msgspec.structs.replace
    ledger = {
        (namespace, base): {
            key: replace(row, payload=resealer.writes(namespace, row)) for key, row in rows.items()
        }
        for (namespace, base), rows in thread.ledger.items()
    }
    runs = {
        key: run if run.input is None else replace(run, input=resealer.input(run.run, run.input))
        for key, run in thread.runs.items()
    }
    thread.blobs, thread.ranges, thread.ledger, thread.runs = blobs, ranges, ledger, runs
