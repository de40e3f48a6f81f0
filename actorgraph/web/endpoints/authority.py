"""Authority of requests that stay open: it is asked for again while they last.

A request is authenticated and authorized when it begins. A stream, a wait for a run or a socket may
last for hours, and meanwhile a token may be revoked or a permission taken away. So it is asked
again: at an interval, for each run that begins, before an output is sent, and for each command.

`ask_again` asks the application's rules; the responses decide when, and how they end.
"""

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypedDict

import anyio
import msgspec

from actorgraph.internals import log_event as event
from actorgraph.systems import Run
from actorgraph.web.endpoints.endpoint import ApiCall
from actorgraph.web.endpoints.request_threads import authorize_again
from actorgraph.web.http.json_equality import contains
from actorgraph.web.http.problems import AccessRevoked, Forbidden, NotFound, response_to
from actorgraph.web.http.watches import Reauthorize

ANSWER_S = 10.0
"""Seconds within which the rules must answer; no answer is a denial."""


class Reauthorization(TypedDict):
    """Options of responses that stay open."""

    reauthorize: Reauthorize | None
    reauthorize_s: float


def reauthorization(call: ApiCall, run: Run | None = None) -> Reauthorization:
    """Return how and when a response asks again; a server without rules has nothing to ask.

    Args:
        run: the one that the response is about; None for all runs of a thread.
    """
    access = call.server.access
    if not access.may_refuse:
        return {"reauthorize": None, "reauthorize_s": access.reauthorize_s}

    async def ask() -> None:
        await ask_again(call, run)

    return {"reauthorize": ask, "reauthorize_s": access.reauthorize_s}


async def ask_again(call: ApiCall, run: Run | None = None) -> None:
    """Authenticate and authorize an open request as at its beginning.

    Args:
        run: one whose graph the principal must still see.
    Raises:
        AccessRevoked: denied, or the rules have failed or not answered.
    """
    with _refusals():
        await _ask(call, _authenticate, _authorize, partial(_check_graph, run=run))


async def authenticate_again(call: ApiCall) -> None:
    """Authenticate an open request as at its beginning.

    Raises:
        AccessRevoked: it is not authenticated, or the rules have failed or not answered.
    """
    with _refusals():
        await _ask(call, _authenticate)


async def _ask(call: ApiCall, *steps: Callable[[ApiCall], Awaitable[None]]) -> None:
    with anyio.fail_after(ANSWER_S):
        for step in steps:
            await step(call)


@contextmanager
def _refusals() -> Generator[None]:
    """Turn any error of the rules into `AccessRevoked`."""
    try:
        yield
    except Exception as error:
        response = response_to(error)
        if response.status_code >= 500:
            event("error", "web.reauthorization_failed", error=repr(error))
        detail = msgspec.json.decode(response.body).get("detail", "")
        raise AccessRevoked(response.status_code, detail) from error


async def _authenticate(call: ApiCall) -> None:
    call.principal = await call.server.access.principal(call.request)


async def _authorize(call: ApiCall) -> None:
    """Ask the rules for the action of the request's route."""
    access, thread_id = call.server.access, call.path.get("thread_id")
    if thread_id is None:
        wanted = await access.ask(call.principal, call.action, None, call.about)
        if not contains(call.wanted, wanted):  # what it made has the metadata of the beginning
            raise Forbidden(call.action)
        return
    asked = call.principal, call.action, thread_id
    await authorize_again(call.server.threads, access, asked, call.thread)


async def _check_graph(call: ApiCall, *, run: Run | None) -> None:
    seen, access = call.graphs, call.server.access
    now: Any = await access.visible(call.principal, call.server.graphs)
    if run is not None and run.graph in seen and run.graph not in now:
        raise NotFound.run(run.id)
