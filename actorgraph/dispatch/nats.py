"""NATSDispatcher: hints by NATS JetStream, news by NATS itself.

A hint is a message of a work queue stream, acknowledged when its run is adopted; one that isn't
comes again after `again_s`. The stream is not in the saver's transaction: a hint that is lost
between the two costs a sweep.

https://docs.nats.io/nats-concepts/jetstream
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import msgspec

from actorgraph.dispatch.engine_thread import EngineThread
from actorgraph.errors import InvalidConfigError, MissingExtraError, StorageError
from actorgraph.values.dispatch import Hint, News

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.js import JetStreamContext

T = TypeVar("T")
ANSWER_S = 15.0
"""Seconds for an answer of the server about a stream or a consumer."""


class _Message(msgspec.Struct, array_like=True, frozen=True):
    """The body of a hint."""

    run: bytes
    priority: int
    due: int


class NATSDispatcher:
    """Carries hints over a NATS server with JetStream.

    Needs `pip install 'actorgraph[nats]'`. Works over each saver that stores runs. It has no
    priorities but one: runs that have lost their system go first.

    Args:
        servers: addresses, such as "nats://localhost:4222".
        stream: name of the JetStream stream, and the first token of its subjects; one per database
            of runs.
        again_s: seconds after which hints that a worker has taken and not settled come again.
        replicas: copies of the stream in a cluster.
    """

    in_commit = False

    def __init__(
        self,
        servers: str | Sequence[str],
        *,
        stream: str = "actorgraph",
        again_s: float = 15.0,
        replicas: int = 1,
    ) -> None:
        if not again_s > 0:
            raise InvalidConfigError(
                f"again_s must be > 0, got {again_s!r}", do="use the default, 15"
            )
        if not stream.isidentifier():
            raise InvalidConfigError(
                f"stream must be an identifier, got {stream!r}", do='use e.g. "actorgraph"'
            )
        self._servers = [servers] if isinstance(servers, str) else list(servers)
        self._stream = stream
        self._again_s = again_s
        self._replicas = replicas

    async def open(self, saver: Any, heard: Callable[[News], None]) -> "_NATSLink":
        """See `ports.Dispatcher`."""
        link = _NATSLink(
            self._servers, self._stream, heard, again_s=self._again_s, replicas=self._replicas
        )
        try:
            await link.start()
        except BaseException:
            with anyio.CancelScope(shield=True):
                await link.close()
            raise
        return link


class _NATSLink:
    """The link of one system. Its coroutines run in its thread."""

    def __init__(
        self,
        servers: list[str],
        stream: str,
        heard: Callable[[News], None],
        *,
        again_s: float,
        replicas: int,
    ) -> None:
        self._servers = servers
        self._stream = stream
        self._heard = heard
        self._again_s = again_s
        self._replicas = replicas
        self._thread = EngineThread()
        self._client: Client | None = None
        self._queues: dict[str, Any] = {}
        self._fetching: dict[asyncio.Task[list[Any]], str] = {}

    # --- called in the system's event loop ---

    async def start(self) -> None:
        """Connect, make the stream, listen to news."""
        await self._thread.start()
        await self._thread.call(self._guarded, self._connect)

    async def close(self) -> None:
        """See `ports.DispatchLink`."""
        await self._thread.stop(self._disconnect)

    async def announce(self, hints: Sequence[Hint]) -> None:
        """See `ports.DispatchLink`."""
        await self._thread.call(self._guarded, partial(self._send, hints))

    async def take(self, queues: Sequence[str], limit: int) -> Sequence[Hint]:
        """See `ports.DispatchLink`."""
        found: Any = await self._thread.call(self._guarded, partial(self._receive, queues, limit))
        return found

    async def settle(self, hints: Sequence[Hint]) -> None:
        """See `ports.DispatchLink`."""
        await self._thread.call(self._guarded, partial(self._acknowledge, hints))

    async def release(self, hints: Sequence[Hint]) -> None:
        """See `ports.DispatchLink`."""
        await self._thread.call(self._guarded, partial(self._refuse, hints))

    async def publish(self, news: News) -> None:
        """See `ports.DispatchLink`."""
        await self._thread.call(self._guarded, partial(self._tell, news))

    # --- in the thread ---

    async def _guarded(self, work: Callable[[], Awaitable[T]]) -> T:
        try:
            from nats.errors import Error
        except ImportError as error:
            raise MissingExtraError(
                "NATSDispatcher needs nats-py, which isn't installed",
                do="pip install 'actorgraph[nats]'",
            ) from error
        try:
            return await work()
        except (TimeoutError, Error, OSError) as error:
            raise StorageError(
                f"the dispatcher's connection to NATS failed: {error!r}",
                do="check that the server is reachable and runs with JetStream (nats-server -js); "
                "runs are stored, and found by sweeps",
            ) from error

    async def _connect(self) -> None:
        import nats
        from nats.js.api import RetentionPolicy, StreamConfig

        self._client = await nats.connect(
            servers=self._servers, max_reconnect_attempts=-1, connect_timeout=5
        )
        await self._jetstream.add_stream(
            StreamConfig(
                name=self._stream,
                subjects=[f"{self._stream}.hints.*"],
                retention=RetentionPolicy.WORK_QUEUE,
                # Sweeps announce a waiting run again and again: once per window is enough.
                duplicate_window=self._again_s,
                num_replicas=self._replicas,
            )
        )
        await self._client.subscribe(f"{self._stream}.news", cb=self._note)
        await self._client.flush()  # the server has it now

    async def _disconnect(self) -> None:
        for task in self._fetching:
            task.cancel()
        for found in await asyncio.gather(*self._fetching, return_exceptions=True):
            for message in found if isinstance(found, list) else ():
                await message.nak()
        if self._client is not None:
            await self._client.close()

    @property
    def _jetstream(self) -> "JetStreamContext":
        assert self._client is not None
        return self._client.jetstream(timeout=ANSWER_S)

    def _subject(self, queue: str) -> str:
        return f"{self._stream}.hints.{queue.encode().hex()}"

    async def _send(self, hints: Sequence[Hint]) -> None:
        window = int(time.time() / self._again_s)
        stream = self._jetstream
        for hint in hints:
            body = msgspec.json.encode(_Message(hint.run, hint.priority, hint.due))
            # The queue is part of it: a run that loses its system changes the queue.
            mark = f"{hint.run.hex()} {hint.queue} {window}"
            await stream.publish(self._subject(hint.queue), body, headers={"Nats-Msg-Id": mark})

    async def _receive(self, queues: Sequence[str], limit: int) -> Sequence[Hint]:
        while True:
            for name in queues:
                if name not in self._fetching.values():
                    self._fetching[asyncio.create_task(self._fetch(name, limit))] = name
            wanted = [task for task, name in self._fetching.items() if name in queues]
            done, _ = await asyncio.wait(wanted, return_when=asyncio.FIRST_COMPLETED)
            found: list[Hint] = []
            for task in sorted(done, key=lambda task: queues.index(self._fetching[task])):
                if len(found) >= limit:
                    break  # the others keep their messages for the next call
                name = self._fetching.pop(task)
                found += [hint for m in task.result() if (hint := await self._hint(m, name))]
            if found:
                return found

    async def _fetch(self, queue: str, limit: int) -> list[Any]:
        from nats.js.api import ConsumerConfig

        if queue not in self._queues:
            self._queues[queue] = await self._jetstream.pull_subscribe(
                self._subject(queue),
                durable=queue.encode().hex(),
                stream=self._stream,
                config=ConsumerConfig(ack_wait=self._again_s, max_ack_pending=100_000),
            )
        while True:
            try:
                return await self._queues[queue].fetch(limit, timeout=self._again_s)
            except TimeoutError:  # nothing yet
                continue

    async def _hint(self, message: Any, queue: str) -> Hint | None:
        body = msgspec.json.decode(message.data, type=_Message)
        wait_s = body.due / 1e6 - time.time() if body.due else 0.0
        if wait_s > 0:
            await message.nak(delay=wait_s)
            return None
        return Hint(body.run, queue, body.priority, body.due, receipt=message)

    async def _acknowledge(self, hints: Sequence[Hint]) -> None:
        for hint in hints:
            await hint.receipt.ack()

    async def _refuse(self, hints: Sequence[Hint]) -> None:
        for hint in hints:
            await hint.receipt.nak()

    async def _tell(self, news: News) -> None:
        assert self._client is not None
        await self._client.publish(f"{self._stream}.news", msgspec.json.encode(news))

    async def _note(self, message: Any) -> None:
        self._heard(msgspec.json.decode(message.data, type=News))
