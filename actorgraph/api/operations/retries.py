"""RetryingSaver: what fails in passing is tried again, by a policy."""

from collections.abc import Awaitable, Callable, Sequence
from random import random
from typing import Any, TypeVar

import anyio

from actorgraph.api.operations.wrapping import WrappedSaver
from actorgraph.errors import SaverBrokenError, StorageBusyError, StorageError
from actorgraph.ports import Saver
from actorgraph.runtime.log import event
from actorgraph.superstep.retries import next_delay
from actorgraph.values.commits import CommitOutcome, Query, Request
from actorgraph.values.node_policies import RetryPolicy

T = TypeVar("T")


def is_passing(error: BaseException) -> bool:
    """Whether nothing was stored and the same may work a moment later: a lock, a lost server."""
    return isinstance(error, StorageBusyError) or (
        isinstance(error, StorageError) and error.retryable
    )


PASSING = RetryPolicy(0.05, 2.0, 2.0, 5, jitter=False, retry_on=is_passing)
"""Five attempts, with waits of 0.05, 0.1, 0.2 and 0.4 seconds between them."""


class RetryingSaver(WrappedSaver):
    """Tries a batch or a read again when its failure is a passing one; a lasting one goes through.

    Runs whose saves wait for it wait too. A failure that leaves the outcome open
    (SaverBrokenError) is never tried again.

    Args:
        saver: the saver whose failures are passing. One that needs no task (`immediate`), such as
            InMemorySaver, is only handed on to.
        policy: how often, how long between, and for which errors; default `PASSING`.
    """

    def __init__(self, saver: Saver, policy: RetryPolicy = PASSING) -> None:
        super().__init__(saver)
        self.policy = policy

    async def commit(self, batch: Sequence[Request]) -> list[CommitOutcome]:
        """See `ports.Saver.commit`."""
        return await self._again("commit", lambda: self.saver.commit(batch))

    async def query(self, queries: Sequence[Query]) -> list[Any]:
        """See `ports.Saver.query`."""
        return await self._again("query", lambda: self.saver.query(queries))

    async def _again(self, what: str, call: Callable[[], Awaitable[T]]) -> T:
        attempt = 1
        while True:
            try:
                return await call()
            except SaverBrokenError:
                raise
            except Exception as error:
                wait = next_delay((self.policy,), attempt, error, random())  # noqa: S311
                if wait is None:
                    raise
                event("warning", f"{what}.retried", attempt=attempt, wait_s=wait, error=repr(error))
                await anyio.sleep(wait)
                attempt += 1
