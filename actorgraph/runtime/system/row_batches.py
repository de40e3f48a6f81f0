"""RowBatches: reads the rows of runs for all that ask at about the same time, by one query.

A piece of news wakes the waiters of many runs at once. If each asked for its own row, the first
ones would go to the connections alone, and a query costs more than a row.
"""

import anyio.lowlevel

from actorgraph.rules.system.dispatching import BATCH_MAX
from actorgraph.runtime.mailbox import Gate
from actorgraph.runtime.saver.hosting import Host
from actorgraph.values.systems import ListRuns, RunRow


class _Batch:
    """Runs that are read together; `rows` is None if the read has failed."""

    def __init__(self) -> None:
        self.runs: dict[bytes, None] = {}
        self.rows: dict[bytes, RunRow] | None = None
        self.done = Gate()


class RowBatches:
    """Reads rows of runs over one host; see the module's docstring."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._open: _Batch | None = None

    async def row(self, run: bytes) -> RunRow | None:
        """Read the row of a run; None if it is unknown.

        Raises:
            StorageError: the saver can't be read, or the row is damaged.
        """
        batch = self._open
        if batch is None or len(batch.runs) >= BATCH_MAX:
            self._open = batch = _Batch()
            batch.runs[run] = None
            await self._read(batch)
        else:
            batch.runs[run] = None
            await batch.done.wait()
        row_found = None if batch.rows is None else batch.rows.get(run)
        if row_found is not None:
            return row_found
        # Alone, with an error of its own: it is unknown, damaged, or the batch's reader has failed.
        alone: list[RunRow] = await self._host.reader.ask(ListRuns(run=run))
        return alone[0] if alone else None

    async def _read(self, batch: _Batch) -> None:
        """Let those join that were woken together with this task, then read."""
        try:
            await anyio.lowlevel.checkpoint()
            if self._open is batch:
                self._open = None
            rows: list[RunRow] = await self._host.reader.ask(ListRuns(among=tuple(batch.runs)))
            batch.rows = {row.run: row for row in rows}
        finally:
            if self._open is batch:
                self._open = None
            batch.done.open()
