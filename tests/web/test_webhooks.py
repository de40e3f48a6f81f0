"""Webhooks of runs: sent at least once with the final state, to checked addresses alone."""

import ipaddress
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx
import pytest
from msgspec.structs import replace

from actorgraph import ActorSystem, SqliteSaver
from actorgraph.stores import SqliteStore
from actorgraph.web import GraphRoutes
from actorgraph.web.jobs.webhook_client import send
from actorgraph.web.jobs.webhook_policy import WebhookPolicy, signed_headers, target_of
from actorgraph.web.jobs.webhooks import KEPT, WebhookSender
from tests.support.gates import PATIENCE_S, patient_group
from tests.web.apps import GRAPHS
from tests.web.receiver import SECRET, Receiver, receiving


@pytest.fixture(scope="module")
def served() -> Iterator[Receiver]:
    """A receiver for all tests."""
    with receiving() as made:
        yield made


@pytest.fixture
def receiver(served: Receiver) -> Receiver:
    """A receiver that has got nothing yet."""
    served.statuses.clear()
    served.got.clear()
    served.raw.clear()
    return served


class SlowToAnswer(SqliteStore):
    """Holds what a search for a thread's items has found, until `go_on` is set."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.found, self.go_on = anyio.Event(), anyio.Event()

    async def asearch(self, *args: Any, **options: Any) -> Any:
        """Search, and hold the answer."""
        items = await super().asearch(*args, **options)
        if options.get("filter"):
            self.found.set()
            await self.go_on.wait()
        return items


class Server:
    """A server over two files, and its sender of webhooks."""

    def __init__(self, path: Path, policy: WebhookPolicy | None, kind: Any = SqliteStore) -> None:
        graphs = {name: graph.compile() for name, graph in GRAPHS.items()}
        saver, store = SqliteSaver(path / "runs.db"), kind(path / "items.db")
        self.store = store
        self.system = ActorSystem(graphs, saver=saver, store=store)
        self.routes = GraphRoutes(self.system, webhooks=policy)
        transport = httpx.ASGITransport(self.routes, raise_app_exceptions=False)
        self.http = httpx.AsyncClient(transport=transport, base_url="http://test")
        self.sender: WebhookSender = self.routes._server.webhooks  # noqa: SLF001
        self.items = self.sender._items  # noqa: SLF001

    async def ask(self, path: str, body: Any) -> Any:
        """The answer to a POST; its status where that isn't 200."""
        answer = await self.http.post(path, json=body)
        return answer.json() if answer.status_code == 200 else answer.status_code

    async def emptied(self) -> None:
        """Wait until no webhook is stored."""
        with anyio.fail_after(PATIENCE_S):
            while await self.items.all():  # noqa: ASYNC110 - another process may empty it
                await anyio.sleep(0.01)


@pytest.fixture
def open_server(tmp_path: Path) -> Callable[..., Any]:
    """A function that opens a server over the test's files."""

    @asynccontextmanager
    async def opened(policy: WebhookPolicy | None, **options: Any) -> AsyncIterator[Server]:
        made = Server(tmp_path, policy, **options)
        async with made.system:
            yield made

    return opened


def body(receiver: Receiver, graph: str = "log", **more: Any) -> dict[str, Any]:
    """The body of a run with a webhook."""
    url = f"{receiver.url}/hook?x=1"
    return {"assistant_id": graph, "input": {"foo": "x"}, "webhook": url, **more}


class TestDelivery:
    async def test_the_final_state_is_posted_and_signed(self, receiver, open_server):
        """
        A run's end is posted with its state, under a signature that the receiver can check, also
        where the run's thread goes with it.
        """
        async with open_server(receiver.policy()) as server:
            await server.ask("/runs/wait", body(receiver, metadata={"by": "me"}))
            await server.emptied()
        ((headers, said),) = receiver.got
        signed = signed_headers(
            SECRET, headers["webhook-id"], int(headers["webhook-timestamp"]), receiver.raw[0]
        )

        assert (said["status"], said["metadata"], said["error"]) == ("success", {"by": "me"}, None)
        assert said["values"] == {"foo": "x", "log": ["first", "second"]}
        assert headers["webhook-signature"] == signed["webhook-signature"]
        assert headers["host"] == receiver.url.removeprefix("http://")

    @pytest.mark.parametrize(
        ("graph", "status", "error"),
        [("fail", "error", "ValueError: broken"), ("ask", "interrupted", None)],
    )
    async def test_other_ends_are_posted_too(self, receiver, open_server, graph, status, error):
        """
        A run that fails or asks is reported with its status, its error and the state so far.
        """
        async with open_server(receiver.policy()) as server:
            await server.ask("/threads", {"thread_id": "t"})
            await server.ask("/threads/t/runs", body(receiver, graph))
            await server.emptied()
        ((_, said),) = receiver.got

        assert (said["status"], said["error"]) == (status, error)
        assert said["values"]["log"] == ["first"]

    async def test_failures_are_tried_again_with_the_same_id(self, receiver, open_server):
        """
        A webhook is posted until it is accepted; redirects are failures and not followed.
        """
        receiver.statuses[:] = [500, 302, 429]
        async with open_server(receiver.policy()) as server:
            await server.ask("/runs/wait", body(receiver))
            await server.emptied()

        assert len(receiver.got) == 4
        assert len({headers["webhook-id"] for headers, _ in receiver.got}) == 1
        assert len(set(receiver.raw)) == 1

    @pytest.mark.parametrize(("statuses", "count"), [([500] * 9, 3), ([410], 1)])
    async def test_it_is_given_up(self, receiver, open_server, statuses, count):
        """
        After the last attempt, or when the receiver says it is gone, nothing is stored any more.
        """
        receiver.statuses[:] = statuses
        async with open_server(receiver.policy(attempts=3)) as server:
            await server.ask("/runs/wait", body(receiver))
            await server.emptied()

        assert len(receiver.got) == count

    async def test_large_values_are_left_out(self, receiver, open_server):
        """
        A body beyond the limit is sent without the values.
        """
        async with open_server(receiver.policy(body_bytes=1500)) as server:
            await server.ask("/runs/wait", body(receiver, input={"foo": "x" * 2000}))
            await server.emptied()
        ((_, said),) = receiver.got

        assert (said["values"], said["values_omitted"]) == (None, True)

    async def test_a_removed_thread_brings_no_webhook_back(self, receiver, open_server):
        """
        A webhook that is delivered while its thread is being removed is not stored again.
        """
        async with open_server(receiver.policy(), kind=SlowToAnswer) as server:
            metadata = {KEPT: {"webhook": f"{receiver.url}/hook"}}
            async with patient_group() as group:
                async with server.sender.armed("t", metadata) as armed:
                    group.start_soon(server.sender.capture, "t")
                    await server.store.found.wait()
                    armed(await server.system.start("log", "t", {"foo": "x"}, metadata=metadata))
                await server.emptied()
                server.store.go_on.set()

            assert not await server.items.all()
        assert len(receiver.got) == 1


class TestRestarts:
    @pytest.mark.parametrize("filled", [False, True])
    async def test_another_process_sends_what_was_left(self, receiver, open_server, filled):
        """
        A webhook whose process died before, or while, it was sent is sent by the next one.
        """
        async with open_server(receiver.policy(pause_s=60)) as server:
            receiver.statuses[:] = [500]
            await server.ask("/threads", {"thread_id": "t"})
            await server.ask("/threads/t/runs/wait", body(receiver))
            await anyio.to_thread.run_sync(receiver.wait, 1)
        async with open_server(receiver.policy()) as server:
            ((identifier, stored),) = (await server.items.all()).items()
            body_kept = stored.body if filled else None
            left = replace(stored, due="", until="", body=body_kept)
            await server.items.put(identifier, left)
            server.sender._look_s = 0.0  # noqa: SLF001
            later = datetime.now(UTC) + timedelta(hours=1)
            for _ in range(2):
                await server.sender.look(later)
            await server.emptied()

        assert [headers["webhook-id"] for headers, _ in receiver.got] == [identifier] * 2
        assert receiver.got[1][1]["values"]["log"] == ["first", "second"]

    async def test_one_without_a_run_is_removed(self, receiver, open_server):
        """
        A webhook whose run was never stored goes after a minute.
        """
        async with open_server(receiver.policy()) as server:
            await server.items.put(
                "id", {"url": "x", "thread_id": "t", "armed_at": datetime.now(UTC).isoformat()}
            )
            server.sender._look_s = 0.0  # noqa: SLF001
            for _ in range(2):
                await server.sender.look(datetime.now(UTC))
            assert await server.items.all()
            await server.sender.look(datetime.now(UTC) + timedelta(minutes=2))
            assert not await server.items.all()
        assert receiver.got == []


class TestRefusals:
    async def test_without_a_policy_they_are_refused(self, receiver, open_server):
        """
        A server without a policy refuses the run, and so does one whose policy forbids the host.
        """
        for policy in (None, WebhookPolicy(["hooks.example.com"], SECRET)):
            async with open_server(policy) as server:
                assert await server.ask("/runs", body(receiver)) == 422
                assert await server.ask("/runs/batch", [body(receiver)]) == 422
                assert await server.system.runs() == []
                assert await server.ask("/threads/count", {}) == 0

    async def test_too_many_are_refused(self, receiver, open_server):
        """
        Beyond the limit of stored webhooks a run with one is refused, before it starts.
        """
        receiver.statuses[:] = [500]
        async with open_server(receiver.policy(pending_max=1, pause_s=60)) as server:
            await server.ask("/runs/wait", body(receiver))

            assert await server.ask("/runs/wait", body(receiver)) == 429
            assert len(await server.system.runs()) <= 1

    @pytest.mark.parametrize(
        "addresses", [["127.0.0.1"], ["8.8.8.8", "10.0.0.1"], ["::ffff:169.254.169.254"]]
    )
    async def test_names_of_private_addresses(self, receiver, addresses):
        """
        A name that resolves to an address that isn't public, even beside others, is not reached.
        """

        async def find(host: str, port: int) -> Any:
            return [ipaddress.ip_address(one) for one in addresses]

        policy = receiver.policy(hosts=["a.example"], private=False)
        target = target_of(f"http://a.example:{policy.ports[0]}/", policy)
        made = await send(target, "id", b"{}", policy, find)

        assert (made.status, made.forbidden) == (None, True)
        assert receiver.got == []

    async def test_the_name_is_resolved_once(self, receiver):
        """
        The connection goes to the address that was checked, under the name's own header.
        """
        asked: list[str] = []

        async def find(host: str, port: int) -> Any:
            asked.append(host)
            return [ipaddress.ip_address("127.0.0.1" if len(asked) == 1 else "10.0.0.1")]

        policy = receiver.policy(hosts=["a.example"])
        target = target_of(f"http://a.example:{policy.ports[0]}/", policy)
        made = await send(target, "id", b"{}", policy, find)

        assert (made.status, asked) == (200, ["a.example"])
        assert receiver.got[0][0]["host"] == f"a.example:{policy.ports[0]}"

    async def test_a_silent_receiver_is_left(self, receiver):
        """
        An attempt ends in time, also where a name never resolves; one without a server fails.
        """

        async def never(host: str, port: int) -> Any:
            await anyio.sleep_forever()

        policy = receiver.policy(timeout_s=0.05)
        target = target_of(f"http://localhost:{policy.ports[0]}/", policy)
        assert "no response" in (await send(target, "id", b"{}", policy, never)).error
        closed = replace(target, host="127.0.0.1", port=1)
        assert "ConnectError" in (await send(closed, "id", b"{}", receiver.policy())).error
