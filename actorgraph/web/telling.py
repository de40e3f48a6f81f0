"""Responses that stay open: a run's events (`EventStream`) or its output (`ResultResponse`).

A response only reads: the run lives in the system. It ends with the run, with the client's
disconnect, or with the server. A disconnect raises no error, and with `on_disconnect="cancel"` it
cancels the run. Source of the format: WHATWG HTML, "Server-sent events".
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
"""Seconds that a request waits for the end of a run that it cancels; the run ends anyway."""


async def send_parts(
    parts: AsyncGenerator[bytes],
    start: Message,
    receive: Receive,
    send: Send,
    *,
    ping: bytes,
    ping_s: float,
    lasts_s: float | None = None,
) -> bool:
    """Send parts of a body as they come; returns whether the client stayed connected to the end.

    An exception while parts are made ends the response early and is logged: its status is sent
    already, and the client of an event stream reconnects.

    Args:
        start: the ASGI message that starts the response.
        ping: a meaningless part, sent every `ping_s` seconds.
        lasts_s: seconds after which the response ends; None for no limit.
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
                except OSError:  # the client disconnected during the write
                    leave()

        await say(start)
        group.start_soon(_listen, receive, leave)
        group.start_soon(_repeat, say, _body(ping), ping_s)
        try:
            with anyio.move_on_after(lasts_s):
                async for part in parts:
                    await say(_body(part))
        except SlowReaderError:
            pass  # as configured (`when_full`); it reconnects after the last event that it has
        except Exception as error:  # noqa: BLE001 - the status is sent: only the log is left
            event("error", "web.broken_off", error=repr(error))
        await say({"type": "http.response.body", "body": b"", "more_body": False})
        group.cancel_scope.cancel()
    return not gone


async def cancel_abandoned(run: Run) -> None:
    """Cancel a run whose client has disconnected. A run of another process goes on there."""
    await shielded(lambda: _cancel_run(run))


async def _cancel_run(run: Run) -> None:
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
