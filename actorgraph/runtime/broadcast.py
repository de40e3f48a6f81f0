"""Broadcast: delivers a run's stream chunks to one reader, in order, with backpressure.

Receives   chunks from the supervisor (`publish` waits while the buffer is full), and live chunks
           from nodes (`offer`, from any thread: a sync node waits at once, an async node at its
           next `await`; `send` waits first)
Sends      the chunks in order, then the end
Bounds     `buffer_max` chunks, of about `buffer_bytes`, and one more chunk of any size; more while
           `reader_is_away`. Between two awaits an async node may exceed it, and so may a task or a
           thread that the node started, by at most `BURST_MAX` chunks or `BURST_BYTES_MAX`.
           The reader's `when_full` says what happens at the bound
Ends       when closed by the run, or by the reader, after which chunks are dropped
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self, cast

import anyio
import anyio.from_thread
import msgspec

from actorgraph.errors import SlowReaderError
from actorgraph.loops import in_event_loop
from actorgraph.runtime.mailbox import Mailbox, Waiting, wait_for_wake_up, wake_all
from actorgraph.runtime.sizes import MB, Held, parts_of
from actorgraph.runtime.stepper import Stepper, stepper_here
from actorgraph.values.stream_items import Namespace, StreamItem, WhenFull

BUFFER_MAX = 256
BUFFER_BYTES = 16 * MB
BURST_MAX = 16_384
"""Chunks that may wait beyond a full buffer; with 1 kB each, 16 MB."""
BURST_BYTES_MAX = 256 * MB
"""Bytes that may wait beyond a full buffer."""


NOTHING_YET: Final = object()


class BroadcastStatistics(msgspec.Struct, frozen=True):
    """Figures of one broadcast.

    Attributes:
        chunks: chunks accepted so far.
        waiting: chunks in the buffer now.
        waiting_max: most chunks that were ever in the buffer.
        dropped: chunks dropped because the reader was slow.
    """

    chunks: int
    waiting: int
    waiting_max: int
    dropped: int = 0


class _Heavy:
    """A waiting chunk whose parts are counted; see `Held`."""

    __slots__ = ("chunk", "parts")

    def __init__(self, chunk: StreamItem, parts: tuple[tuple[int, int], ...]) -> None:
        self.chunk = chunk
        self.parts = parts


class Broadcast:
    """One run's chunks for one reader.

    Args:
        modes: the stream modes that the reader asked for.
        buffer_max: number of chunks that may wait.
        buffer_bytes: their approximate bytes. Those below an even share of it aren't counted.
        subgraphs: whether it reads the runs of subgraphs too.
        when_full: "block" makes the run wait; "drop_oldest" drops the oldest chunk; "close" ends
            the stream with `SlowReaderError`.

    Attributes:
        root: the namespace of the run that the reader has started.
        above: the broadcast of the parent run; it gets the chunks that its own reader asked for.
        seen: ids of the messages that the reader has.
        overflowed: called when "close" has closed it.
        arrived: called when a chunk or the end is there, from any thread.
        away: how many functions of the run, inside each other, have the reader's thread.
        waits_for_reader: whether a task begins only when the reader, which has read all chunks,
            waits for another one.
    """

    def __init__(
        self,
        modes: frozenset[str],
        buffer_max: int = BUFFER_MAX,
        *,
        subgraphs: bool = False,
        when_full: WhenFull = "block",
        buffer_bytes: int = BUFFER_BYTES,
    ) -> None:
        self.modes = modes
        self.root: Namespace = ()
        self.above: Broadcast | None = None
        self.seen: set[Any] = set()
        self.overflowed: Callable[[], None] = _ignore_overflow
        self.arrived: Callable[[], None] = _ignore_arrival
        self.away = 0
        self.waits_for_reader = self._wanted = False
        self._subgraphs = subgraphs
        self._when_full = when_full
        self._buffer_max = buffer_max
        self._bytes_max = buffer_bytes
        self._light = buffer_bytes // buffer_max
        self._load = Held()
        self._chunks: Mailbox[StreamItem | _Heavy | None] = Mailbox()
        self._items = self._chunks.items
        self._lock = threading.Lock()
        self._room: Waiting = []  # senders that wait for room
        self._starts: Waiting = []  # tasks that wait for the reader
        self._open = True
        self._too_slow: tuple[str, str] | None = None
        self._count = self._most = self._dropped = 0

    @property
    def is_stored(self) -> bool:
        """Whether the chunks are also stored; see `Journal`."""
        return self.above is not None and self.above.is_stored

    def modes_at(self, namespace: Namespace) -> frozenset[str]:
        """The modes that are read of the run in a namespace, by this reader and those above."""
        own = self._own_at(namespace)
        return own if self.above is None else own | self.above.modes_at(namespace)

    def _own_at(self, namespace: Namespace) -> frozenset[str]:
        return self.modes if self._subgraphs or namespace == self.root else frozenset()

    def begin_anew(self, about: Mapping[str, Any]) -> None:
        """Say that a task begins anew, to those of the readers that are told; see `Journal`."""
        if self.above is not None:
            self.above.begin_anew(about)

    async def publish(self, chunks: tuple[StreamItem, ...]) -> None:
        """Send chunks; waits for room before each."""
        for chunk in chunks:
            await self.send(chunk)

    async def send(self, chunk: StreamItem) -> None:
        """Send one chunk once there is room for it."""
        await self.wait_room()
        self._put(chunk)

    def try_publish(self, chunks: tuple[StreamItem, ...]) -> bool:
        """Send chunks if there is room for all of them; otherwise send none and return False."""
        over = self._blocks and (
            len(self._items) + len(chunks) > self._buffer_max or self._load.bytes >= self._bytes_max
        )
        if over and not self.reader_is_away:
            return False
        if self.above is not None and self.above.is_full:
            return False
        for chunk in chunks:
            self._put(chunk)
        return True

    def offer(self, chunk: StreamItem) -> None:
        """Send a live chunk from a node. In a worker thread it waits for room.

        Raises:
            SlowReaderError: a node that can't be made to wait is `BURST_MAX` chunks or
                `BURST_BYTES_MAX` ahead.
        """
        self._put(chunk)
        if not self.is_full:
            return
        if not in_event_loop():
            stepper = stepper_here()
            if stepper is not None:
                Stepper(self.wait_room()).run()
                return
            with suppress(anyio.NoEventLoopError):  # a thread that anyio didn't start can't wait
                anyio.from_thread.run(self.wait_room)
                return
        many = len(self._items) >= self._buffer_max + BURST_MAX
        if self._blocks and (many or self._load.bytes >= self._bytes_max + BURST_BYTES_MAX):
            far = f"{BURST_MAX} chunks" if many else f"{BURST_BYTES_MAX // MB} MB"
            raise SlowReaderError(
                f"a node is {far} ahead of a reader whose buffer is full: a plain "
                "writer can't wait without an `await`, nor in a task or thread of the node's own",
                do="`await writer.asend(chunk)` instead of `writer(chunk)`, or read with "
                'astream(..., when_full="drop_oldest")',
            )

    @property
    def is_full(self) -> bool:
        """Whether senders have to wait."""
        over = len(self._items) >= self._buffer_max or self._load.bytes >= self._bytes_max
        own = over and self._blocks and not self.reader_is_away
        return own or (self.above is not None and self.above.is_full)

    @property
    def reader_is_away(self) -> bool:
        """Whether the reader's thread is in a function of the run, maybe one that waits for more.

        It can't read before the function has ended. So nothing may wait for it: chunks of nested
        runs are kept meanwhile, however many, and their tasks begin.
        """
        return self.away > 0

    @property
    def holds(self) -> bool:
        """Whether no task may begin now; see `waits_for_reader`."""
        own = self.waits_for_reader and self._open and (bool(self._items) or not self._wanted)
        own = own and not self.reader_is_away
        return own or (self.above is not None and self.above.holds)

    async def wait_wanted(self) -> None:
        """Wait until it doesn't hold the run."""
        while self.holds:
            if self.above is not None and self.above.holds:
                await self.above.wait_wanted()
                continue
            await wait_for_wake_up(self._starts, lambda: not self.holds)

    def wake_when_wanted(self, box: Mailbox[None]) -> None:
        """Have a mailbox get an item when it may no longer hold the run."""
        if box not in self._starts:
            self._starts.append(box)
        if self.above is not None:
            self.above.wake_when_wanted(box)

    @property
    def is_empty(self) -> bool:
        """Whether its reader has to wait."""
        return not self._items

    @property
    def is_awaited(self) -> bool:
        """Whether its reader waits."""
        return self._chunks.is_awaited

    @property
    def _blocks(self) -> bool:
        return self._open and self._when_full == "block"

    async def wait_room(self) -> None:
        """Wait until the buffer has room or the reader has left."""
        while self.is_full:
            # `above` is read anew each time: `leave` may take it away while this waits.
            if self.above is not None and self.above.is_full:
                await self.above.wait_room()
                continue
            await wait_for_wake_up(self._room, lambda: not self.is_full)

    async def get(self) -> StreamItem | None:
        """Take the next chunk; None at the end.

        Raises:
            SlowReaderError: "close" has closed it; raised after the buffered chunks.
        """
        while (chunk := self.take()) is NOTHING_YET:
            self.want()
            await self._chunks.wait()
        return cast("StreamItem | None", chunk)

    def take(self) -> object:
        """Take the next chunk; None at the end, NOTHING_YET if the reader has to wait.

        Raises: as `get`.
        """
        with self._lock:  # another thread may drop chunks
            if not self._items:
                return NOTHING_YET
            chunk = self._chunks.get_nowait()
            if type(chunk) is _Heavy:
                self._load.remove(chunk.parts)
                chunk = chunk.chunk
            self._wanted = False
        room = len(self._items) < self._buffer_max and self._load.bytes < self._bytes_max
        if room and self._room:
            self._wake_senders()
        if chunk is None and self._too_slow:
            option, far = self._too_slow
            raise SlowReaderError(
                f"the reader of a stream was {far} behind",
                do=f'read faster, raise {option}=, or use when_full="block" or "drop_oldest"',
            )
        return chunk

    def want(self) -> None:
        """Note that the reader waits for a chunk; see `waits_for_reader`."""
        if self.waits_for_reader:
            self._wanted = True
            self._wake_tasks()

    @property
    def waiters(self) -> tuple[Waiting, Waiting]:
        """Those who wait for the reader; the same lists for all of its life."""
        return self._room, self._starts

    def end(self) -> None:
        """Close it from the run's side: the reader gets the buffered chunks, then the end."""
        with self._lock:  # an abandoned thread of a sync node may still write, and drop chunks
            self._open = False
            self._chunks.put(None)
        self.arrived()
        self._wake_senders()
        self._wake_tasks()

    def leave(self) -> None:
        """Close it from the reader's side: drop later chunks and release waiting senders."""
        self._open, self.above = False, None
        self._wake_senders()
        self._wake_tasks()

    def statistics(self) -> BroadcastStatistics:
        """Its figures so far."""
        return BroadcastStatistics(self._count, len(self._items), self._most, self._dropped)

    def _put(self, chunk: StreamItem) -> None:
        if self.above is not None:
            self._put_above(chunk)
            if chunk[1] not in self._own_at(chunk[0]):
                return
        if not self._open:
            return
        if self._when_full != "block" and (
            len(self._items) >= self._buffer_max or self._load.bytes >= self._bytes_max
        ):
            self._overflow()
        if self._open:
            # A reader that keeps up costs nothing: the first chunk that waits isn't counted.
            parts = parts_of(chunk[2], self._light) if self._items else ()
            if parts:
                with self._lock:
                    self._load.add(parts)
                self._chunks.put(_Heavy(chunk, parts))
            else:
                self._chunks.put(chunk)
            self.arrived()
            self._count += 1
            self._most = max(self._most, len(self._items))

    def _put_above(self, chunk: StreamItem) -> None:
        namespace, mode, content = chunk
        assert self.above is not None
        if mode in self.above.modes_at(namespace):
            if mode == "messages":
                self.above.seen.add(getattr(content[0], "id", None))
            self.above._put(chunk)  # noqa: SLF001 - of this class

    def _overflow(self) -> None:
        if self._when_full == "close":
            many = len(self._items) >= self._buffer_max
            count, size = f"{self._buffer_max} chunks", f"{self._bytes_max:,} bytes"
            self._too_slow = ("buffer", count) if many else ("buffer_bytes", size)
            self.leave()
            self.overflowed()
            self.end()
            return
        with self._lock:  # the reader may be in another thread
            while self._open and (
                len(self._items) >= self._buffer_max
                or (self._items and self._load.bytes >= self._bytes_max)
            ):
                dropped = self._chunks.get_nowait()
                if type(dropped) is _Heavy:
                    self._load.remove(dropped.parts)
                self._dropped += 1

    def _wake_tasks(self) -> None:
        if self._starts:
            wake_all(self._starts)

    def _wake_senders(self) -> None:
        if self._room:
            wake_all(self._room)


def _ignore_overflow() -> None:
    pass


def _ignore_arrival() -> None:
    pass


class Closing(ABC):
    """Base of readers and streams that are closed by `aclose` or an `async with` block."""

    @abstractmethod
    async def aclose(self) -> None:
        """Stop reading and release resources."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()
