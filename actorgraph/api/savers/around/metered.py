"""MeteredSaver: calls a hook with the duration and the bytes of every save, read and removal."""

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from actorgraph.api.savers.around.wrapped import WrappedSaver
from actorgraph.api.savers.requests import bytes_of, bytes_read, name_of
from actorgraph.ports import Saver
from actorgraph.runtime.log import event
from actorgraph.values.commits import CommitOutcome, Committed, Query, Request


class SaverCall(NamedTuple):
    """One operation that a saver has carried out, or refused.

    Attributes:
        op: put, put_writes, end, resume, delete, copy, vacuum, get, list, list_threads or count.
        backend: the class of the innermost saver.
        duration_s: of the transaction; operations in the same one have the same duration.
        bytes: of values, writes, records and metadata, encoded.
        ok: whether it was stored or answered.
    """

    op: str
    backend: str
    duration_s: float
    bytes: int
    ok: bool


Hook = Callable[[SaverCall], None]


class MeteredSaver(WrappedSaver):
    """Reports the duration and the bytes of a saver's operations.

    Args:
        saver: the saver to measure.
        hook: called in the saver's event loop or thread, after each operation; it must not
            block. Its errors are logged and otherwise ignored.
        clock: returns seconds; default `time.perf_counter`.
    """

    def __init__(
        self, saver: Saver, hook: Hook, *, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        super().__init__(saver)
        self._hook = hook
        self._clock = clock
        self._backend = _innermost(saver)

    async def commit(self, batch: Sequence[Request]) -> list[CommitOutcome]:
        """See `ports.Saver.commit`."""
        began = self._clock()
        try:
            outcomes = await self.saver.commit(batch)
        except BaseException:
            self._committed(batch, None, began)
            raise
        self._committed(batch, outcomes, began)
        return outcomes

    def commit_now(self, batch: Sequence[Request]) -> list[CommitOutcome]:
        """`commit` of an immediate saver."""
        began = self._clock()
        try:
            outcomes = super().commit_now(batch)
        except BaseException:
            self._committed(batch, None, began)
            raise
        self._committed(batch, outcomes, began)
        return outcomes

    async def query(self, queries: Sequence[Query]) -> list[Any]:
        """See `ports.Saver.query`."""
        began = self._clock()
        try:
            answers = await self.saver.query(queries)
        except BaseException:
            self._answered(queries, None, began)
            raise
        self._answered(queries, answers, began)
        return answers

    def query_now(self, queries: Sequence[Query]) -> list[Any]:
        """`query` of an immediate saver."""
        began = self._clock()
        try:
            answers = super().query_now(queries)
        except BaseException:
            self._answered(queries, None, began)
            raise
        self._answered(queries, answers, began)
        return answers

    def _committed(
        self, batch: Sequence[Request], outcomes: Sequence[CommitOutcome] | None, began: float
    ) -> None:
        took = self._clock() - began
        for place, request in enumerate(batch):
            ok = outcomes is not None and isinstance(outcomes[place], Committed)
            self._tell(name_of(request), took, bytes_of(request), ok=ok)

    def _answered(self, queries: Sequence[Query], answers: Any, began: float) -> None:
        took = self._clock() - began
        for place, query in enumerate(queries):
            answer = None if answers is None else answers[place]
            ok = answers is not None and not isinstance(answer, BaseException)
            self._tell(name_of(query), took, bytes_read(answer), ok=ok)

    def _tell(self, op: str, took: float, size: int, *, ok: bool) -> None:
        try:
            self._hook(SaverCall(op, self._backend, took, size, ok))
        except Exception as error:  # noqa: BLE001 - the program's hook may raise anything
            event("error", "metrics.hook_failed", op=op, error=repr(error))


def _innermost(saver: Saver) -> str:
    while isinstance(saver, WrappedSaver):
        saver = saver.saver
    return type(saver).__name__
