"""RetryingSaver: retries transient failures, by a policy."""

from collections.abc import Awaitable, Callable, Sequence
from random import random
from typing import Any, TypeVar

import anyio

from actorgraph.api.savers.wrappers.wrapped import WrappedSaver
from actorgraph.errors import SaverBrokenError, StorageBusyError, StorageError
from actorgraph.ports import Saver
from actorgraph.runtime.log import event
from actorgraph.superstep.task_failures import next_delay
from actorgraph.values.commits import CommitOutcome, Query, Request
from actorgraph.values.policies import RetryPolicy

T = TypeVar("T")


def is_transient(error: BaseException) -> bool:
    """Whether nothing was stored and a retry may succeed: a locked file, a lost connection."""
    return isinstance(error, StorageBusyError) or (
        isinstance(error, StorageError) and error.retryable
    )


TRANSIENT = RetryPolicy(0.05, 2.0, 2.0, 5, jitter=False, retry_on=is_transient)
"""Five attempts, with waits of 0.05, 0.1, 0.2 and 0.4 seconds between them."""


class RetryingSaver(WrappedSaver):
    """Retries a batch or a read that failed with a transient error; other errors are raised.

    Runs whose saves are in the batch wait meanwhile. A failure with an unknown outcome
    (SaverBrokenError) is never retried.

    Args:
        saver: the saver to retry. An `immediate` one, such as InMemorySaver, is not retried.
        policy: how often, how long between, and for which errors; default `TRANSIENT`.

    Attributes:
        policy: as given.
    """

    def __init__(self, saver: Saver, policy: RetryPolicy = TRANSIENT) -> None:
        super().__init__(saver)
        self.policy = policy

    async def commit(self, batch: Sequence[Request]) -> list[CommitOutcome]:
        """See `ports.Saver.commit`."""
        return await self._retry("commit", lambda: self.saver.commit(batch))

    async def query(self, queries: Sequence[Query]) -> list[Any]:
        """See `ports.Saver.query`."""
        return await self._retry("query", lambda: self.saver.query(queries))

    async def _retry(self, what: str, call: Callable[[], Awaitable[T]]) -> T:
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
