"""The fsync probe: what one durable write costs on this disk, at this minute.

A figure that touches the disk says little without it: the same program is three times as fast
on a disk that syncs three times as fast, and on a shared machine the disk changes by the hour.
"""

import os
import statistics
import tempfile
import time
from pathlib import Path

BLOCK = b"\xa5" * 4096
SAMPLES = 100

# macOS has no fdatasync; its fsync is the nearest thing.
_sync = getattr(os, "fdatasync", os.fsync)


def fsync_us(folder: Path) -> float:
    """The median time to append 4 KiB to a new file in `folder` and sync it, in microseconds."""
    samples = []
    with tempfile.NamedTemporaryFile(dir=folder, prefix="probe-") as file:
        for _ in range(SAMPLES):
            started = time.perf_counter()
            os.write(file.fileno(), BLOCK)
            _sync(file.fileno())
            samples.append(time.perf_counter() - started)
    return statistics.median(samples) * 1e6
