"""MeteredSaver: calls a hook with the duration and the bytes of every save, read and removal."""

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from actorgraph.api.savers.host_access import innermost
from actorgraph.api.savers.requests import bytes_of, bytes_read, name_of
from actorgraph.api.savers.wrappers.wrapped import WrappedSaver
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
        self._backend = type(innermost(saver)).__name__

    async def commit(self, batch: Sequence[Request]) -> list[CommitOutcome]:
        """See `ports.Saver.commit`."""
        with self._timed(self._committed, batch) as outcomes:
            outcomes.extend(await self.saver.commit(batch))
        return outcomes

    def commit_now(self, batch: Sequence[Request]) -> list[CommitOutcome]:
        """`commit` of an immediate saver."""
        with self._timed(self._committed, batch) as outcomes:
            outcomes.extend(super().commit_now(batch))
        return outcomes

    async def query(self, queries: Sequence[Query]) -> list[Any]:
        """See `ports.Saver.query`."""
        with self._timed(self._answered, queries) as answers:
            answers.extend(await self.saver.query(queries))
        return answers

    def query_now(self, queries: Sequence[Query]) -> list[Any]:
        """`query` of an immediate saver."""
        with self._timed(self._answered, queries) as answers:
            answers.extend(super().query_now(queries))
        return answers

    @contextmanager
    def _timed(self, report: Callable[..., None], asked: Sequence[Any]) -> Generator[list[Any]]:
        """Report a call of the saver, with its duration; also a failed one.

        Args:
            report: called with `asked`, the results (None: the call failed) and the duration.
            asked: requests or queries.
        Yields: the list to which the call adds its results.
        """
        began = self._clock()
        results = list[Any]()
        try:
            yield results
        except BaseException:
            report(asked, None, self._clock() - began)
            raise
        report(asked, results, self._clock() - began)

    def _committed(
        self, batch: Sequence[Request], outcomes: Sequence[CommitOutcome] | None, took: float
    ) -> None:
        for place, request in enumerate(batch):
            ok = outcomes is not None and isinstance(outcomes[place], Committed)
            self._call_hook(name_of(request), took, bytes_of(request), ok=ok)

    def _answered(
        self, queries: Sequence[Query], answers: Sequence[Any] | None, took: float
    ) -> None:
        for place, query in enumerate(queries):
            answer = None if answers is None else answers[place]
            ok = answers is not None and not isinstance(answer, BaseException)
            self._call_hook(name_of(query), took, bytes_read(answer), ok=ok)

    def _call_hook(self, op: str, took: float, size: int, *, ok: bool) -> None:
        try:
            self._hook(SaverCall(op, self._backend, took, size, ok))
        except Exception as error:  # noqa: BLE001 - the program's hook may raise anything
            event("error", "metrics.hook_failed", op=op, error=repr(error))
