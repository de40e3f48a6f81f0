"""Handing a request to the persistence actor now, and waiting for its answer later."""

from collections.abc import Awaitable, Callable

from actorgraph.runtime.mailbox import Mailbox, wait_through
from actorgraph.runtime.persistence import PersistenceActor, Receipts
from actorgraph.values.commits import Request
from actorgraph.values.run import Saved, SaveFailed


def handed_over(writer: PersistenceActor, request: Request) -> Callable[[], Awaitable[None]]:
    """Hand a request over; the function that is returned waits until it is durable.

    That raises the error of a request that was refused.
    """
    box: Mailbox[Saved | SaveFailed] = Mailbox()
    writer.post(request, Receipts(box.put))

    async def wait() -> None:
        answer = await wait_through(box.get)
        if isinstance(answer, SaveFailed):
            raise answer.error

    return wait
