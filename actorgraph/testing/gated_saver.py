"""A saver whose commits block until a test releases them.

Wrap any saver, make a graph with it, and release commits one by one:

    async with GatedSaver(InMemorySaver()) as saver:
        ...                              # start a run in a task of its own
        batch = await saver.waiting()    # the run's first commit is blocked
        saver.release()                  # it is stored; the next one will block
        saver.release(None)              # from here on no commit blocks

Invariant  a batch is stored after it was released, and acknowledged after it was stored.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Any, cast

from actorgraph.api.savers.hosted import HostedSaver
from actorgraph.codec import Codec
from actorgraph.ports import Saver
from actorgraph.runtime.mailbox import Gate
from actorgraph.values.commits import CommitOutcome, Query, Request


class GatedSaver(HostedSaver):
    """Wraps any saver; `commit` blocks until it is released. Reads don't block.

    `hold`, `release` and `waiting` may be called from any thread and event loop.

    Args:
        inner: stores the checkpoints.
        is_open: whether commits pass until `hold` is called; default they block.
        on_stored: called with each batch after it was stored, before it is acknowledged.
    Attributes:
        batches: the stored batches, in order.
    """

    immediate = False

    def __init__(
        self,
        inner: Saver,
        *,
        is_open: bool = False,
        on_stored: Callable[[Sequence[Request]], None] | None = None,
    ) -> None:
        self.inner = inner
        self.durable = inner.durable
        self.codec = cast("Codec | None", getattr(inner, "codec", None)) or Codec()
        self.batches: list[tuple[Request, ...]] = []
        self._on_stored = on_stored
        self._lock = threading.Lock()
        self._allowed: int | None = None if is_open else 0
        self._batch: tuple[Request, ...] | None = None
        self._arrival = Gate()
        self._opening = Gate()

    def hold(self) -> None:
        """Block commits from now on."""
        with self._lock:
            self._allowed = 0

    def release(self, commits: int | None = 1) -> None:
        """Let a number of commits pass, a blocked one first; None lets all pass until `hold`."""
        with self._lock:
            known = self._allowed
            self._allowed = None if commits is None or known is None else known + commits
            if self._batch is not None:
                self._batch, self._arrival = None, Gate()
            opening, self._opening = self._opening, Gate()
        opening.open()

    async def waiting(self) -> tuple[Request, ...]:
        """Wait until a commit is blocked and return its batch."""
        while True:
            with self._lock:
                batch, arrival = self._batch, self._arrival
            if batch is not None:
                return batch
            await arrival.wait()

    async def open(self) -> None:
        """See `ports.Saver.open`."""
        await self.inner.open()

    async def commit(self, batch: Sequence[Request]) -> list[CommitOutcome]:
        """See `ports.Saver.commit`; blocks until it is released."""
        while (opening := self._pass(tuple(batch))) is not None:
            await opening.wait()
        outcomes = await self.inner.commit(batch)
        self.batches.append(tuple(batch))
        if self._on_stored is not None:
            self._on_stored(batch)
        return outcomes

    async def query(self, queries: Sequence[Query]) -> list[Any]:
        """See `ports.Saver.query`."""
        return await self.inner.query(queries)

    async def close(self) -> None:
        """See `ports.Saver.close`."""
        await self.inner.close()

    def _pass(self, batch: tuple[Request, ...]) -> Gate | None:
        """None if the batch may pass; otherwise the gate to wait for."""
        with self._lock:
            if self._allowed != 0:
                self._allowed = None if self._allowed is None else self._allowed - 1
                return None
            self._batch = batch
            self._arrival.open()
            return self._opening
