"""WebhookSender: posts the final state of runs to the addresses that their clients have given.

Stored     before its run starts ("armed"), then with its body when the run has ended, until it is
           delivered or given up. So a webhook is sent at least once, always with the same id
Watches    the runs that this process has started; each look at the store finds those of others,
           whose process may have died, and sends them if nothing has changed since the last look
"""

from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import NAMESPACE_OID, uuid4, uuid5

import anyio
from msgspec import Struct

from actorgraph.errors import (
    ActorGraphError,
    InvalidConfigError,
    SystemBusyError,
    SystemClosedError,
)
from actorgraph.internals import OPEN_STATUSES, shielded
from actorgraph.internals import log_event as event
from actorgraph.systems import ActorSystem, Run
from actorgraph.web.jobs.stored_items import ItemKind
from actorgraph.web.jobs.webhook_client import Resolve, http_client, resolve, send
from actorgraph.web.jobs.webhook_policy import Target, WebhookPolicy, pause_after, target_of

KEPT = "actorgraph.web"
"""The key in a run's metadata for what its request has asked for."""
YOUNG_S = 60.0
"""Age in seconds below which a webhook without a run is kept: its run may be about to start."""
LOOK_S = 5.0


class StoredWebhook(Struct):
    """A webhook that is neither delivered nor given up.

    Attributes:
        url: checked when its run was started, and again at each attempt.
        thread_id: of its run.
        armed_at: ISO 8601.
        body: JSON; None until its run has ended.
        attempts: how many have begun.
        due: ISO 8601; no attempt before this.
        until: ISO 8601; a process sends it until then, others leave it.
        user_id: text of the principal whose run it is of; None for an unknown one.
    """

    url: str
    thread_id: str
    armed_at: str
    body: str | None = None
    attempts: int = 0
    due: str = ""
    until: str = ""
    user_id: str | None = None


class WebhookSender:
    """Stores and sends the webhooks of one server.

    Args:
        system: of the runs.
        store: keeps the webhooks.
        policy: where they may go; None refuses all.
        describe: returns the fields of a body for a run that has ended, except the values.
        encode: encodes a body as JSON.
        find: resolves names.
        look_s: seconds between two looks at the store.
        client_max: webhooks of one client that may wait to be sent; None for no limit.
    """

    def __init__(
        self,
        system: ActorSystem,
        store: Any,
        policy: WebhookPolicy | None,
        *,
        describe: Callable[[Run], dict[str, Any]],
        encode: Callable[[Any], bytes],
        find: Resolve = resolve,
        look_s: float = LOOK_S,
        client_max: int | None = None,
    ) -> None:
        if policy is not None:
            http_client()
        self._system = system
        self._items = ItemKind(store, "webhooks", StoredWebhook, _check)
        self._policy = policy
        self._described, self._encode = describe, encode
        self._find = find
        self._look_s = look_s
        self._mine: set[str] = set()
        self._seen: dict[str, StoredWebhook] = {}
        self._limiter: anyio.CapacityLimiter | None = None
        self._filling = anyio.Lock()
        self._pending: Counter[str | None] = Counter()
        self._client_max = client_max
        self._again = 0.0

    def check(self, url: str, user: str | None, more: int = 1) -> Target:
        """Refuse a webhook that the policy doesn't allow.

        Args:
            user: text of the principal whose run it is of; None for an unknown one.
            more: how many webhooks the request has.
        Raises:
            InvalidConfigError: it isn't allowed.
            SystemBusyError: too many wait to be sent.
        """
        if self._policy is None:
            raise InvalidConfigError(
                "webhooks are not enabled on this server",
                do="join or stream the run, or pass webhooks=WebhookPolicy(...) to GraphRoutes",
            )
        waiting = self._pending.total()
        if waiting >= self._policy.pending_max:
            raise SystemBusyError(
                f"{waiting} webhooks wait to be sent",
                do="retry later",
                retry_after_s=60.0,
                limit="webhooks",
            )
        own = self._pending[user]
        if self._client_max is not None and own + more > self._client_max:
            raise SystemBusyError(
                f"{own} webhooks of this client wait to be sent, and it may have "
                f"{self._client_max} (Limits.webhooks_per_client)",
                do="retry later",
                retry_after_s=60.0,
                limit="webhooks_per_client",
            )
        return target_of(url, self._policy)

    @asynccontextmanager
    async def armed(
        self,
        thread_id: str,
        metadata: dict[str, Any],
        *,
        user: str | None = None,
        key: str | None = None,
    ) -> AsyncGenerator[Callable[[Run], None]]:
        """Store a run's webhook while the run is started; call the result with the run.

        Args:
            metadata: the run's; gets the webhook's id.
            user: text of the principal whose run it is; None for an unknown one.
            key: makes the id, for a run that several processes start.
        """
        url: str | None = metadata[KEPT].get("webhook")
        if url is None:
            yield lambda _: None
            return
        identifier = str(uuid4() if key is None else uuid5(_KEYS, key))
        metadata[KEPT]["webhook_id"] = identifier
        self._mine.add(identifier)
        started: list[Run] = []
        try:
            if key is None or await self._items.get(identifier) is None:
                made = StoredWebhook(url, thread_id, _later(0), user_id=user)
                await self._put(identifier, made)
            yield started.append
        finally:
            if started:
                self._pending[user] += 1
                self._system.spawn(self._watch, identifier, started[0])
            else:
                self._mine.discard(identifier)
                if key is None:
                    await shielded(lambda: self._items.remove(identifier))

    async def capture(self, thread_id: str) -> None:
        """Store the bodies of a thread's webhooks before the thread is removed."""
        if self._policy is None:
            return
        for identifier, stored in (await self._items.all(thread_id=thread_id)).items():
            if stored.body is None:
                run = await self._run_of(identifier, stored)
                if run is not None and run.status not in OPEN_STATUSES:
                    await self._filled(identifier, run)

    async def look(self, now: datetime) -> float:
        """Send what other processes have left; returns the seconds until the next look."""
        left = self._again - anyio.current_time()
        if self._policy is None or left > 0:
            return self._look_s if self._policy is None else left
        found = await self._items.all()
        self._pending = Counter(stored.user_id for stored in found.values())
        seen, self._seen = self._seen, {}
        for identifier, stored in found.items():
            if identifier in self._mine:
                continue
            self._seen[identifier] = stored
            if seen.get(identifier) == stored:
                try:
                    await self._take_over(identifier, stored, now)
                except SystemClosedError:
                    raise
                except Exception as error:  # noqa: BLE001 - the others are sent
                    said = {"webhook": identifier, "error": repr(error)}
                    event("warning", "webhook.not_taken_over", **said)
        self._again = anyio.current_time() + self._look_s
        return self._look_s

    async def _take_over(self, identifier: str, stored: StoredWebhook, now: datetime) -> None:
        if stored.body is None:
            run = await self._run_of(identifier, stored)
            if run is None:
                if datetime.fromisoformat(stored.armed_at) + timedelta(seconds=YOUNG_S) < now:
                    event("warning", "webhook.without_run", webhook=identifier)
                    await self._items.remove(identifier)
                return
            if run.status in OPEN_STATUSES:
                return
            self._mine.add(identifier)
            self._system.spawn(self._watch, identifier, run)
        elif max(stored.until, stored.due) <= now.isoformat():
            self._mine.add(identifier)
            self._system.spawn(self._resume, identifier, stored)

    async def _run_of(self, identifier: str, stored: StoredWebhook) -> Run | None:
        for run in await self._system.runs(thread_id=stored.thread_id):
            if run.metadata.get(KEPT, {}).get("webhook_id") == identifier:
                return run
        return None

    async def _watch(self, identifier: str, run: Run) -> None:
        """Wait for the end of a run, then deliver its webhook."""

        async def work() -> None:
            if await run.wait() in OPEN_STATUSES:  # this system is closing; another goes on
                return
            stored = await self._filled(identifier, run)
            if stored is not None:
                await self._deliver(identifier, stored)

        await self._guarded(identifier, work)

    async def _resume(self, identifier: str, stored: StoredWebhook) -> None:
        await self._guarded(identifier, lambda: self._deliver(identifier, stored))

    async def _guarded(self, identifier: str, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except Exception as error:  # noqa: BLE001 - a later look sends it
            event("warning", "webhook.not_sent", webhook=identifier, error=repr(error))
        finally:
            self._mine.discard(identifier)

    async def _filled(self, identifier: str, run: Run) -> StoredWebhook | None:
        """Return the webhook of a run that has ended, with its body; None if it is gone.

        `capture` and the run's own watch may both fill it. The later one reads what the earlier one
        has stored: filled from an old copy, a delivered webhook would be stored, and sent, again.
        """
        async with self._filling:
            stored = await self._items.get(identifier)
            if stored is None:
                return None
            return stored if stored.body is not None else await self._fill(identifier, stored, run)

    async def _fill(self, identifier: str, stored: StoredWebhook, run: Run) -> StoredWebhook:
        """Store the body of a webhook whose run has ended; called by one task at a time."""
        assert self._policy is not None
        graph = self._system.graphs.get(run.graph)
        values: Any = None
        if graph is not None:
            try:
                values = await values_after(graph, run)
            except ActorGraphError as error:
                event("warning", "webhook.without_values", webhook=identifier, error=repr(error))
        body = self._encode({**self._described(run), "values": values})
        if len(body) > self._policy.body_bytes:
            body = self._encode({**self._described(run), "values": None, "values_omitted": True})
        stored.body = body.decode()
        await self._put(identifier, stored)
        return stored

    async def _deliver(self, identifier: str, stored: StoredWebhook) -> None:
        policy = self._policy
        assert policy is not None
        assert stored.body is not None
        self._limiter = self._limiter or anyio.CapacityLimiter(policy.concurrency)
        while True:
            try:
                target = target_of(stored.url, policy)
            except InvalidConfigError as error:  # the policy has changed
                await self._end(identifier, stored, str(error))
                return
            async with self._limiter:
                # Counted and stored first: one that ends the process isn't tried for ever.
                stored.attempts += 1
                stored.until = _later(policy.timeout_s * 2)
                await self._put(identifier, stored)
                body = stored.body.encode()
                made = await send(target, identifier, body, policy, self._find)
            if made.status is not None and 200 <= made.status < 300:
                await self._end(identifier, stored, "")
                return
            why = made.error or f"HTTP {made.status}"
            pause_s = pause_after(made, stored.attempts, policy)
            if pause_s is None:
                await self._end(identifier, stored, why)
                return
            event("info", "webhook.retry", webhook=identifier, error=why, pause_s=pause_s)
            stored.due, stored.until = _later(pause_s), _later(pause_s + policy.timeout_s)
            await self._put(identifier, stored)
            await anyio.sleep(pause_s)

    async def _end(self, identifier: str, stored: StoredWebhook, why: str) -> None:
        """Remove a webhook that was delivered or, for a reason, given up."""
        if why:
            said = {"webhook": identifier, "attempts": stored.attempts, "error": why}
            event("error", "webhook.given_up", **said)
        await self._items.remove(identifier)
        self._pending[stored.user_id] = max(0, self._pending[stored.user_id] - 1)

    async def _put(self, identifier: str, stored: StoredWebhook) -> None:
        await self._items.put(identifier, stored)


def _check(stored: StoredWebhook) -> None:
    """Raise a `ValueError` if its time is none."""
    datetime.fromisoformat(stored.armed_at)


_KEYS = uuid5(NAMESPACE_OID, "actorgraph.webhooks")


def _later(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


async def values_after(graph: Any, run: Run) -> Any:
    """Return the state that a run has left; the thread's newest one if it has stored none."""
    config: dict[str, Any] = {"configurable": {"thread_id": run.thread_id}}
    newest = await graph.aget_state(config)
    if (newest.metadata or {}).get("run_id") == run.id:
        return newest.values
    own = graph.aget_state_history(config, filter={"run_id": run.id}, limit=1)
    async for snapshot in own:
        return snapshot.values
    return newest.values
