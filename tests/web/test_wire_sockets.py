"""WebSockets of the streaming protocol: through langgraph-sdk, and refused ones."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from tests.web.apps import application
from tests.web.sdk import DONE, NEW, address, anyio_backend, client
from tests.web.server import running

__all__ = ["address", "anyio_backend", "client"]

START = {"id": 1, "method": "run.start", "params": {"assistant_id": "log", "input": NEW}}
WATCH = {"id": 2, "method": "subscription.subscribe", "params": {"channels": ["lifecycle"]}}


def tenants(principal: str, action: str, thread_id: str | None, metadata: Any) -> Any:
    """Each tenant has threads of its own."""
    return {"tenant": principal}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    path: Path = tmp_path_factory.mktemp("sockets") / "runs.db"
    app = application(
        path, authorize=tenants, authenticate=lambda request: request.headers.get("x-user")
    )
    with running(app) as url:
        yield url


def socket(address: str, thread_id: str, path: str = "stream/events", **headers: str) -> Any:
    """Connect to a thread's socket."""
    url = address.replace("http", "ws", 1)
    return connect(f"{url}/threads/{thread_id}/{path}", additional_headers=headers, proxy=None)


async def ask(made: Any, command: dict[str, Any]) -> dict[str, Any]:
    """Send a command, and return the next message."""
    await made.send(json.dumps(command))
    return json.loads(await made.recv())


class TestSockets:
    async def test_the_sdk_streams_over_a_socket(self, client):
        """
        A run is started, streamed and answered over WebSockets as over HTTP.
        """
        async with client.threads.stream(assistant_id="ask", transport="websocket") as thread:
            await thread.run.start(input=NEW)
            # The SDK ends this at the question, which it reads from a socket of its own: the last
            # values before it may be left out.
            async for _ in thread.values:
                pass
            await thread.run.respond("because")
            answered = await thread.output
        async with client.threads.stream(assistant_id="log", transport="websocket") as thread:
            await thread.run.start(input=NEW)
            values = [one async for one in thread.values]

        assert answered["log"][-1] == "answer: because"
        assert values[-1] == DONE

    @pytest.mark.parametrize("path", ["stream/events", "stream"])
    async def test_all_goes_over_one_socket(self, address, client, path):
        """
        A new thread's first run is started and watched on one socket, and the watch ended.
        """
        async with socket(address, f"new-{path.replace('/', '-')}", path) as made:
            started = await ask(made, START)
            subscribed = await ask(made, WATCH)
            life = [json.loads(await made.recv())["params"]["data"]["event"] for _ in range(2)]
            end = {"id": 3, "method": "subscription.unsubscribe", "params": subscribed["result"]}
            ended, again = await ask(made, end), await ask(made, end)
        run = await client.runs.get(f"new-{path.replace('/', '-')}", started["result"]["run_id"])

        assert {started["type"], subscribed["type"], run["status"]} == {"success"}
        assert life == ["running", "completed"]
        assert (ended["type"], again["error"]) == ("success", "no_such_subscription")

    @pytest.mark.parametrize(
        ("message", "code"),
        [
            ("{", "invalid_argument"),
            ('{"id": 1}', "invalid_argument"),
            ('{"id": 1, "method": "run.stop"}', "unknown_command"),
            ('{"id": 1, "method": "subscription.subscribe"}', "invalid_argument"),
            (json.dumps({**WATCH, "id": 1}), "permission_denied"),
        ],
    )
    async def test_a_wrong_command_does_not_end_the_socket(self, address, message, code):
        """
        A command that can't be executed is answered with a code, and the next one is executed.
        """
        async with socket(address, "none") as made:
            await made.send(message)
            refused = json.loads(await made.recv())
            following = await ask(made, {"id": 5, "method": "run.stop"})

        assert (refused["type"], refused["error"]) == ("error", code)
        assert following["id"] == 5


class TestAccess:
    @pytest.mark.parametrize(
        ("headers", "status"), [({}, 401), ({"x-user": "a", "Origin": "https://evil.test"}, 403)]
    )
    async def test_a_refused_socket_says_why(self, guarded, headers, status):
        """
        A socket without authentication, or of another origin's page, is closed with the status.
        """
        with pytest.raises(ConnectionClosed) as caught:
            async with socket(guarded, "t", **headers) as made:
                await made.recv()

        assert caught.value.rcvd is not None
        assert caught.value.rcvd.code == 4000 + status

    async def test_another_tenants_thread_is_not_there(self, guarded):
        """
        On a socket a thread of another tenant can't be read or run, as if it didn't exist.
        """
        async with socket(guarded, "owned", **{"x-user": "owner"}) as made:
            assert (await ask(made, START))["type"] == "success"
        async with socket(guarded, "owned", **{"x-user": "other"}) as made:
            answers = [await ask(made, command) for command in (START, WATCH)]
        async with socket(guarded, "missing", **{"x-user": "other"}) as made:
            unknown = await ask(made, WATCH)

        assert [one["error"] for one in answers] == ["permission_denied"] * 2
        assert answers[1]["message"].replace("owned", "missing") == unknown["message"]

    async def test_a_page_of_the_same_origin_is_served(self, address):
        """
        A page of the server's own origin may open a socket.
        """
        async with socket(address, "same", Origin=address) as made:
            assert (await ask(made, START))["type"] == "success"
