"""NATSDispatcher: hints by NATS JetStream, news by NATS itself.

A hint is a message of a work queue stream, acknowledged when its run is adopted; one that isn't
comes again after `again_s`. Each run has a subject of its own in each queue, with one message at
most: a second hint of a run that has one is left out by the server. The stream is not in the
saver's transaction: a hint that is lost between the two costs a sweep.

https://docs.nats.io/nats-concepts/jetstream
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import msgspec

from actorgraph.dispatch.engine_thread import EngineThread, Parcel
from actorgraph.errors import InvalidConfigError, MissingExtraError, StorageError
from actorgraph.storage.store_clock import StoreClock, clock_of
from actorgraph.values.dispatch import ID_BYTES, Hint, News
from actorgraph.values.durations import checked_seconds

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.js import JetStreamContext

T = TypeVar("T")
ANSWER_S = 15.0
"""Seconds for an answer of the server about a stream or a consumer."""
CONNECT_S = 5.0
"""Seconds for the first connection; a client that has been connected connects again by itself."""
LEAVE_S = 5.0
"""Seconds for giving hints back when the link is closed; else they come again by themselves."""
PING_S = 5
"""Seconds between two pings: two without an answer end a connection whose server is silent."""
HINTS_KEPT_S = 86_400.0
"""Age at which the server drops a hint: a run that still waits is announced again by sweeps."""
_HAS_ONE = 10077
"""JetStream's error code of a subject that has its message already."""
_NAME_IN_USE = 10058
"""JetStream's error code of a stream that exists with other settings."""


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
        checked_seconds("again_s", again_s, default="the default, 15")
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
            self._servers,
            self._stream,
            heard,
            clock=clock_of(saver),
            again_s=self._again_s,
            replicas=self._replicas,
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
        clock: StoreClock,
        again_s: float,
        replicas: int,
    ) -> None:
        self._clock = clock
        self._servers = servers
        self._stream = stream
        self._heard = heard
        self._again_s = again_s
        self._replicas = replicas
        self._thread = EngineThread()
        self._client: Client | None = None
        self._queues: dict[str, Any] = {}
        self._fetching: dict[asyncio.Task[list[Any]], str] = {}
        self._parcel = Parcel()
        self._calls: set[anyio.CancelScope] = set()
        self._is_cut = False  # the connection has been lost since hints were asked for
        self.unreadable = 0

    # --- called in the system's event loop ---

    async def start(self) -> None:
        """Connect, make the stream, listen to news."""
        await self._thread.start()
        await self._thread.call(partial(self._guarded, self._connect, is_connected=False))

    async def close(self) -> None:
        """See `ports.DispatchLink`."""
        await self._thread.stop(self._disconnect)

    async def announce(self, hints: Sequence[Hint]) -> None:
        """See `ports.DispatchLink`."""
        await self._thread.call(self._guarded, partial(self._send, hints))

    async def take(self, queues: Sequence[str], limit: int) -> Sequence[Hint]:
        """See `ports.DispatchLink`."""
        work = partial(self._receive, queues, limit)
        found: Any = await self._thread.call(self._guarded, work)
        self._parcel.received()
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

    async def _guarded(self, work: Callable[[], Awaitable[T]], *, is_connected: bool = True) -> T:
        """Call a function that uses the client.

        Args:
            is_connected: fail at once without a connection. The client would wait for one, and
                would keep what it is to send.
        """
        try:
            from nats.errors import Error
        except ImportError as error:
            raise MissingExtraError(
                "NATSDispatcher needs nats-py, which isn't installed",
                do="pip install 'actorgraph[nats]'",
            ) from error
        try:
            return await (self._until_cut(work) if is_connected else work())
        except (TimeoutError, Error, OSError) as error:
            raise StorageError(
                f"the dispatcher's connection to NATS failed: {error!r}",
                do="check that the server is reachable and runs with JetStream (nats-server -js); "
                "runs are stored, and found by sweeps",
            ) from error

    async def _until_cut(self, work: Callable[[], Awaitable[T]]) -> T:
        """Call a function; end it when the connection is lost, and its answer with that."""
        if self._client is None or not self._client.is_connected:
            raise ConnectionError("it is not connected")
        with anyio.CancelScope() as scope:
            self._calls.add(scope)
            try:
                return await work()
            finally:
                self._calls.discard(scope)
        raise ConnectionError("the connection was lost")

    async def _connect(self) -> None:
        from nats.aio.client import Client

        self._client = client = Client()
        with anyio.fail_after(CONNECT_S):
            await client.connect(
                servers=self._servers,
                max_reconnect_attempts=-1,
                connect_timeout=CONNECT_S,  # type: ignore[arg-type]
                ping_interval=PING_S,
                # The client prints each error with its traceback; the calls of this link have them.
                error_cb=_ignore,
                disconnected_cb=self._cut,
            )
        # Before the request for the stream, whose answer says that the server has both. An answer
        # to `flush` says less: its ping overtakes what the client has still to send.
        await client.subscribe(f"{self._stream}.news", cb=self._note)
        await self._make_stream()

    async def _cut(self) -> None:
        self._is_cut = True  # requests are lost with the connection
        for scope in tuple(self._calls):
            scope.cancel()

    async def _make_stream(self) -> None:
        """Make the stream, or give it these settings.

        Raises:
            InvalidConfigError: the server has a stream of this name for something else.
        """
        from nats.js.api import DiscardPolicy, RetentionPolicy, StreamConfig
        from nats.js.errors import APIError

        wanted = StreamConfig(
            name=self._stream,
            subjects=[f"{self._stream}.hints.*.*"],
            retention=RetentionPolicy.WORK_QUEUE,
            max_msgs_per_subject=1,
            discard=DiscardPolicy.NEW,
            discard_new_per_subject=True,
            max_age=HINTS_KEPT_S,
            num_replicas=self._replicas,
        )
        try:
            await self._jetstream.add_stream(wanted)
        except APIError as error:
            if error.err_code != _NAME_IN_USE:
                raise
            there = (await self._jetstream.stream_info(self._stream)).config
            if there.subjects != wanted.subjects or there.retention != wanted.retention:
                raise InvalidConfigError(
                    f"the NATS server has a stream {self._stream!r} with the subjects "
                    f"{there.subjects}, which is not one of hints",
                    do="pass another stream=, or remove that stream",
                ) from error
            await self._jetstream.update_stream(wanted)

    async def _disconnect(self) -> None:
        client, self._client = self._client, None
        if client is None:
            return
        if client.is_connected:
            with anyio.move_on_after(LEAVE_S), suppress(Exception):  # they come by themselves then
                await self._give_back()
        # The client writes what it has left to a connection that may be gone.
        with anyio.move_on_after(LEAVE_S), suppress(Exception):
            await client.close()

    async def _give_back(self) -> None:
        """Give back the hints that no call of `take` has got."""
        for task in self._fetching:
            task.cancel()
        for found in await asyncio.gather(*self._fetching, return_exceptions=True):
            for message in found if isinstance(found, list) else ():
                await message.nak()
        await self._refuse(self._parcel.all())

    @property
    def _jetstream(self) -> "JetStreamContext":
        assert self._client is not None
        return self._client.jetstream(timeout=ANSWER_S)

    def _subject(self, queue: str, run: str = "*") -> str:
        return f"{self._stream}.hints.{queue.encode().hex()}.{run}"

    async def _send(self, hints: Sequence[Hint]) -> None:
        from nats.js.errors import APIError, NoStreamResponseError

        stream = self._jetstream
        for hint in hints:
            body = msgspec.json.encode(_Message(hint.run, hint.priority, hint.due))
            subject = self._subject(hint.queue, hint.run.hex())
            try:
                await stream.publish(subject, body)
            except NoStreamResponseError:  # the stream was removed
                await self._make_stream()
                await stream.publish(subject, body)
            except APIError as error:
                if error.err_code != _HAS_ONE:
                    raise

    async def _receive(self, queues: Sequence[str], limit: int) -> Sequence[Hint]:
        while True:
            if found := self._parcel.take_hints(queues, limit):
                return found
            if self._is_cut:
                self._forget_fetching()
            for name in queues:
                if name not in self._fetching.values():
                    task = asyncio.create_task(self._fetch(name, limit))
                    task.add_done_callback(_retrieve)
                    self._fetching[task] = name
            wanted = [task for task, name in self._fetching.items() if name in queues]
            done, _ = await asyncio.wait(wanted, return_when=asyncio.FIRST_COMPLETED)
            for task in sorted(done, key=lambda task: queues.index(self._fetching[task])):
                name = self._fetching.pop(task)
                await self._unpack(task.result(), name)
            await self._put_off()

    def _forget_fetching(self) -> None:
        """Ask for hints anew after the connection was lost; those on their way come again."""
        self._is_cut = False
        for task in self._fetching:
            task.cancel()
        self._fetching.clear()

    async def _unpack(self, messages: Sequence[Any], queue: str) -> None:
        """Put the hints of messages into the parcel; end messages that are none."""
        for message in messages:
            try:
                self._parcel.put([_hint(message, queue)])
            except (ValueError, TypeError):  # msgspec's errors among them
                self.unreadable += 1
                await message.term()

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
            except TimeoutError:  # nothing yet, or nothing that it could come from
                await self._check_queue(queue)

    async def _check_queue(self, queue: str) -> None:
        """Make a stream or a consumer anew that has been removed on the server."""
        from nats.js.errors import NotFoundError

        try:
            await self._queues[queue].consumer_info()
        except NotFoundError:
            del self._queues[queue]
            await self._make_stream()
            raise  # the next call of `take` subscribes again

    async def _put_off(self) -> None:
        """Send hints back whose time has not come."""
        now = self._clock.now() / 1e6
        for hint in self._parcel.remove(lambda hint: hint.due / 1e6 > now):
            await hint.receipt.nak(delay=hint.due / 1e6 - now)

    async def _acknowledge(self, hints: Sequence[Hint]) -> None:
        # Each with an answer: until then the server refuses a second hint of the run.
        await asyncio.gather(*(hint.receipt.ack_sync() for hint in hints))

    async def _refuse(self, hints: Sequence[Hint]) -> None:
        for hint in hints:
            await hint.receipt.nak()

    async def _tell(self, news: News) -> None:
        assert self._client is not None
        await self._client.publish(f"{self._stream}.news", msgspec.json.encode(news))

    async def _note(self, message: Any) -> None:
        try:
            news = msgspec.json.decode(message.data, type=News)
        except (ValueError, TypeError):
            self.unreadable += 1
        else:
            self._heard(news)


def _retrieve(task: "asyncio.Task[Any]") -> None:
    """Look at a task's error, so that asyncio doesn't print it if no call waits for the task."""
    if not task.cancelled():
        task.exception()


async def _ignore(_: Exception) -> None:
    pass


def _hint(message: Any, queue: str) -> Hint:
    """Read a message. Raises ValueError, or one of msgspec's, if it isn't a hint."""
    body = msgspec.json.decode(message.data, type=_Message)
    if len(body.run) != ID_BYTES:
        raise ValueError
    return Hint(body.run, queue, body.priority, body.due, receipt=message)
