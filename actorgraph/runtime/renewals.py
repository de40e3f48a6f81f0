"""Renewals: how the renewals of a system's lease reach the store, past the saves of its runs.

Receives   renewals, from any thread and event loop
Sends      the outcome of each to its receipts
Order      what waits goes into one transaction, over a connection that nothing else uses, where
           the saver has one (`commit_beside`); else through the persistence actor, as its next
           batch. So a renewal waits for one batch at most, however many saves there are
Ends       when stopped; what waits then is refused
"""

from collections.abc import Awaitable, Callable, Sequence

import anyio

from actorgraph.errors import CheckpointError
from actorgraph.ports import Saver
from actorgraph.runtime.mailbox import Gate, Mailbox, wait_in, wait_through
from actorgraph.runtime.persistence import PersistenceActor, Receipts, closed_error
from actorgraph.values.commits import Outcome, Refused
from actorgraph.values.run import Saved, SaveFailed
from actorgraph.values.systems import RenewOwner

CommitBeside = Callable[[Sequence[RenewOwner]], Awaitable[list[Outcome]]]
_Waiting = tuple[RenewOwner, Receipts]


class Renewals:
    """See the module's text.

    Args:
        writer: the saver's persistence actor.
    """

    def __init__(self, saver: Saver, writer: PersistenceActor) -> None:
        self._commit: CommitBeside | None = getattr(saver, "commit_beside", None)
        self._writer = writer
        self._inbox: Mailbox[_Waiting | None] = Mailbox()
        self._closed: CheckpointError | None = None
        self._unanswered: dict[Receipts, None] = {}
        self._idle: list[Gate] = []

    def post(self, renewal: RenewOwner, receipts: Receipts) -> None:
        """Hand over a renewal. Never waits; the answer comes through the receipts."""
        self._unanswered[receipts] = None
        mine = Receipts(lambda answer: self._hear(receipts, answer))
        if self._commit is None:
            self._writer.post(renewal, mine)
        elif self._closed is not None:
            mine.deliver(SaveFailed(0, self._closed))
        else:
            self._inbox.put((renewal, mine))

    async def store(self, renewal: RenewOwner) -> None:
        """Hand over a renewal and wait until it is stored.

        Raises:
            StorageError: it is not.
        """
        box: Mailbox[Saved | SaveFailed] = Mailbox()
        self.post(renewal, Receipts(box.put))
        answer = await wait_through(box.get)
        if isinstance(answer, SaveFailed):
            raise answer.error

    async def wait_idle(self) -> None:
        """Wait until every renewal is answered: none is stored after what is handed over next."""
        await wait_in(self._idle, lambda: not self._unanswered)

    async def serve(self) -> None:
        """Store what waits, until stopped."""
        while self._commit is not None:
            batch = [await self._inbox.get()]
            while len(self._inbox):
                batch.append(self._inbox.get_nowait())
            taken = [one for one in batch if one is not None]
            if taken:
                with anyio.CancelScope(shield=True):
                    await self._store(taken, self._commit)
            if len(taken) < len(batch):
                return

    def stop(self, error: CheckpointError | None = None) -> None:
        """Take nothing more; `serve` ends when what waits is stored."""
        self._closed = self._closed or error or closed_error()
        self._inbox.put(None)

    def refuse(self, error: CheckpointError) -> None:
        """Answer everything that waits with an error."""
        while len(self._inbox):
            waiting = self._inbox.get_nowait()
            if waiting is not None:
                waiting[1].deliver(SaveFailed(0, error))

    async def _store(self, taken: Sequence[_Waiting], commit: CommitBeside) -> None:
        try:
            outcomes = await commit([renewal for renewal, _ in taken])
        except Exception as error:  # noqa: BLE001 - whoever renews hears of it
            outcomes = [Refused(error)] * len(taken)
        for (_, receipts), outcome in zip(taken, outcomes, strict=True):
            if isinstance(outcome, Refused):
                receipts.deliver(SaveFailed(0, outcome.error))
            else:
                receipts.deliver(Saved(0))

    def _hear(self, receipts: Receipts, answer: Saved | SaveFailed) -> None:
        self._unanswered.pop(receipts, None)
        receipts.deliver(answer)
        if not self._unanswered:
            idle, self._idle = self._idle, []
            for gate in idle:
                gate.open()
