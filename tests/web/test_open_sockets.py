"""Access is asked for again while a socket is open; the sockets are those of the application."""

import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, cast

import anyio
import httpx
import pytest
from starlette.routing import WebSocketRoute

from actorgraph.web.stream_protocol.protocol_sockets import socket_routes
from tests.web.apps import application
from tests.web.sdk import anyio_backend
from tests.web.server import running
from tests.web.test_open_requests import WAYS, Rules
from tests.web.test_wire_sockets import START, WATCH, ask, socket

__all__ = ["anyio_backend"]

_ROUTES = socket_routes(cast("Any", None))
NAMES = [
    one.path.removeprefix("/threads/{thread_id}/")
    for one in _ROUTES
    if isinstance(one, WebSocketRoute)
]


@pytest.fixture
def rules() -> Rules:
    return Rules()


@pytest.fixture
def address(tmp_path: Path, rules: Rules) -> Iterator[str]:
    with running(application(tmp_path / "runs.db", **rules.options())) as url:
        yield url
        rules.begin("")
        httpx.post(f"{url}/runs/cancel", json={"status": "all"}, trust_env=False)


async def closed(made: Any, then: Callable[[], Awaitable[Any]]) -> int:
    """Do something, and return the code that the socket is closed with."""
    await then()
    with anyio.fail_after(20):
        await made.wait_closed()
    return made.close_code


@pytest.mark.parametrize("name", NAMES)
class TestSockets:
    async def test_a_revoked_token_starts_nothing(self, address, rules, name):
        """
        A command through an open socket is authenticated: with a revoked token it ends the socket.
        """
        async with socket(address, "w", name) as made:
            assert (await ask(made, START))["type"] == "success"
            rules.begin("authenticate", 0)
            code = await closed(made, lambda: made.send(json.dumps({**START, "id": 9})))

        assert code == 4401

    @pytest.mark.parametrize("rule", ["authenticate", "authorize"])
    async def test_a_subscription_ends(self, address, rules, name, rule):
        """
        A subscription whose access is taken away in the middle of a run ends the socket.
        """
        start = {**START, "params": {"assistant_id": "sleep", "input": {"foo": "a"}}}
        async with socket(address, "s", name) as made:
            assert (await ask(made, start))["type"] == "success"
            await ask(made, WATCH)

            async def take() -> None:
                rules.begin(rule)

            code = await closed(made, take)

        assert code == 4000 + WAYS[rule]
