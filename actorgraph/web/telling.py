"""Telling a client parts of an answer as they come, and noticing that it has gone.

What ends it: the last part, the client's leaving, the server's own end. It never raises for a
client that is gone: nobody is there who could be told.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

import anyio
from starlette.types import Message, Receive, Send

from actorgraph.api.runs import Run
from actorgraph.errors import ActorGraphError, SlowReaderError
from actorgraph.loops import shielded
from actorgraph.runtime.log import event

PING_S = 10.0
CANCEL_S = 5.0
"""Seconds that a request waits for a run that it cancels; the run ends all the same."""


async def told(
    parts: AsyncGenerator[bytes],
    start: Message,
    receive: Receive,
    send: Send,
    *,
    ping: bytes,
    ping_s: float,
    lasts_s: float | None = None,
) -> bool:
    """Send parts of a body as they come; returns whether the client was there to the end.

    Parts that fail end the answer early, and are logged: an event stream's reader comes back.

    Args:
        start: the message that begins the response.
        ping: a part that means nothing, sent after each `ping_s` seconds.
        lasts_s: seconds after which the answer ends, whatever would come; None for no bound.
    """
    lock = anyio.Lock()
    gone = False
    async with anyio.create_task_group() as group, aclosing(parts):

        def leave() -> None:
            nonlocal gone
            gone = True
            group.cancel_scope.cancel()

        async def say(message: Message) -> None:
            async with lock:
                try:
                    await send(message)
                except OSError:  # it has gone while it was written to
                    leave()

        await say(start)
        group.start_soon(_listen, receive, leave)
        group.start_soon(_repeat, say, _body(ping), ping_s)
        try:
            with anyio.move_on_after(lasts_s):
                async for part in parts:
                    await say(_body(part))
        except SlowReaderError:
            pass  # as configured; it comes back behind the last event that it has
        except Exception as error:  # noqa: BLE001 - the status is sent; there is only the log
            event("error", "web.broken_off", error=repr(error))
        await say({"type": "http.response.body", "body": b"", "more_body": False})
        group.cancel_scope.cancel()
    return not gone


async def give_up(run: Run) -> None:
    """Cancel a run whose client has gone. One that another process has goes on there."""
    await shielded(lambda: _give_up(run))


async def _give_up(run: Run) -> None:
    with anyio.move_on_after(CANCEL_S):
        try:
            await run.cancel("the client has gone")
        except ActorGraphError as error:
            event("warning", "web.not_cancelled", run_id=run.id, error=str(error))


async def _listen(receive: Receive, leave: Callable[[], None]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    leave()


async def _repeat(say: Send, message: Message, seconds: float) -> None:
    while True:
        await anyio.sleep(seconds)
        await say(message)


def _body(part: bytes) -> Message:
    return {"type": "http.response.body", "body": part, "more_body": True}
