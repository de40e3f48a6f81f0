"""Post a request to the persistence actor now and wait for its answer later."""

from collections.abc import Awaitable, Callable

from actorgraph.runtime.mailbox import Mailbox, wait_shielded
from actorgraph.runtime.persistence import PersistenceActor, Receipts
from actorgraph.values.commits import Request
from actorgraph.values.run import Saved, SaveFailed


def post_request(writer: PersistenceActor, request: Request) -> Callable[[], Awaitable[None]]:
    """Hand a request over to the persistence actor.

    Returns: an async function that waits until the request is durable, and raises its error if
        it was refused.
    """
    box: Mailbox[Saved | SaveFailed] = Mailbox()
    writer.post(request, Receipts(box.put))

    async def wait() -> None:
        answer = await wait_shielded(box.get)
        if isinstance(answer, SaveFailed):
            raise answer.error

    return wait
