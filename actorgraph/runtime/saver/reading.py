"""The read actor: answers the queries of every run of one saver, in batches.

Receives   queries, from any thread
Sends      to each query its answer, or the error of its batch
Order      waiting queries are answered from one read transaction, on the saver's reading
           connection, so a read never waits for a commit; a saver with several reading
           connections (`reads_at_once`) gets as many batches at once
Bounds     a batch is at most 512 queries; answers go out in slices of 8, because runs begin
           inside the call that delivers their answer
Ends       when stopped and drained
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import msgspec

from actorgraph.errors import CheckpointError
from actorgraph.ports import Saver, Watch
from actorgraph.runtime.log import event
from actorgraph.runtime.mailbox import Mailbox
from actorgraph.runtime.saver.answer_counts import checked_answers
from actorgraph.runtime.saver.persistence import BATCH_MESSAGES_MAX, closed_error
from actorgraph.values.commits import LoadCheckpoint, Query

ANSWERS_SLICE = 8
NO_THREAD = "actorgraph.ping"
"""A thread id that no program uses; `ping` reads it."""


class ReadStatistics(msgspec.Struct, frozen=True):
    """Figures of the read actor.

    Attributes:
        queries: queries answered.
        batches: batches of them.
        waiting: queries in the mailbox now.
    """

    queries: int
    batches: int
    waiting: int


class ReadActor:
    """Answers reads in batches, over the saver's reading connection."""

    def __init__(self, saver: Saver) -> None:
        self._saver = saver
        self._watch: Watch | None = getattr(saver, "watch", None)
        self._queries = self._batches = 0
        self._inbox: Mailbox[tuple[Query, Mailbox[Any]] | None] = Mailbox()
        self._closed: CheckpointError | None = None

    async def ask(self, query: Query, *, watched: bool = True) -> Any:
        """Get the answer to one query.

        Args:
            watched: whether the saver's watch sees the query and the answer.
        Raises:
            StorageError: the saver could not read.
            SaverClosedError: the saver is closed.
        """
        watch = self._watch if watched else None
        seen = query if watch is None else watch.asked(query)
        if self._saver.immediate:
            # Only immediate savers have `query_now`, so the protocol doesn't.
            query_now: Any = getattr(self._saver, "query_now")  # noqa: B009
            (answer,) = checked_answers(self._saver, "query_now", [seen], query_now([seen]))
        elif self._closed is not None:
            raise self._closed
        else:
            box: Mailbox[Any] = Mailbox()
            self._inbox.put((seen, box))
            answer = await box.get()
            if isinstance(answer, BaseException):
                raise answer
        for error in getattr(answer, "damaged", ()):  # rows that the answer leaves out
            event("warning", "row.damaged", error=str(error))
        return answer if watch is None else watch.answered(query, answer)

    def begin(self, query: Query) -> Callable[[], Awaitable[Any]]:
        """Hand over a query; a query that is asked at once afterwards joins its transaction.

        Returns: an async function that waits for the answer, and raises as `ask`.
        """
        if self._saver.immediate or self._watch is not None or self._closed is not None:
            return partial(self.ask, query)
        box: Mailbox[Any] = Mailbox()
        self._inbox.put((query, box))

        async def wait() -> Any:
            answer = await box.get()
            if isinstance(answer, BaseException):
                raise answer
            for error in getattr(answer, "damaged", ()):
                event("warning", "row.damaged", error=str(error))
            return answer

        return wait

    async def ping(self) -> None:
        """Check that the storage answers a read; bypasses the saver's watch.

        Raises:
            StorageError: the saver could not read.
            SaverClosedError: the saver is closed.
        """
        await self.ask(LoadCheckpoint(NO_THREAD, ""), watched=False)

    def statistics(self) -> ReadStatistics:
        """Its figures so far."""
        return ReadStatistics(self._queries, self._batches, len(self._inbox))

    def stop(self, error: CheckpointError | None = None) -> None:
        """Refuse later queries; `serve` ends when the waiting ones are answered.

        Args:
            error: for later queries; default SaverClosedError.
        """
        self._closed = self._closed or error or closed_error()
        self._inbox.put(None)

    def refuse(self, error: BaseException) -> None:
        """Answer all waiting queries with an error."""
        while len(self._inbox):
            item = self._inbox.get_nowait()
            if item is not None:
                item[1].put(error)

    async def serve(self) -> None:
        """Answer waiting queries together; as many batches at once as the saver takes."""
        lanes = getattr(self._saver, "reads_at_once", 1)
        room = anyio.Semaphore(lanes)
        items = self._inbox.items
        async with anyio.create_task_group() as replies:
            while True:
                item = await self._inbox.get()
                # Waited for before the batch is collected: queries that come meanwhile join it.
                if lanes > 1:
                    await room.acquire()
                asked: list[tuple[Query, Mailbox[Any]]] = []
                while item is not None:
                    asked.append(item)
                    item = items.popleft() if items and len(asked) < BATCH_MESSAGES_MAX else None
                if lanes > 1:
                    replies.start_soon(self._reply_beside, asked, room)
                elif asked:
                    await self._reply(asked)
                del asked  # or the runs that asked would live as long as the reader waits
                if self._closed is not None and not items:
                    return

    async def _reply_beside(
        self, asked: Sequence[tuple[Query, Mailbox[Any]]], room: anyio.Semaphore
    ) -> None:
        try:
            if asked:
                await self._reply(asked)
        finally:
            room.release()

    async def _reply(self, asked: Sequence[tuple[Query, Mailbox[Any]]]) -> None:
        self._queries += len(asked)
        self._batches += 1
        with anyio.CancelScope(shield=True):
            try:
                queries = [query for query, _ in asked]
                returned = await self._saver.query(queries)
                answers = checked_answers(self._saver, "query", queries, returned)
            except Exception as error:  # noqa: BLE001 - a foreign saver may raise anything
                answers = [error] * len(asked)
            for count, ((_, box), answer) in enumerate(zip(asked, answers, strict=True), 1):
                box.put(answer)
                if count % ANSWERS_SLICE == 0:
                    await anyio.lowlevel.checkpoint()
