"""Hosts: each open saver with its persistence actor and its read actor, in one event loop.

A saver opened with `async with` is hosted in a task group of the opener's loop. One that is used
without being opened is hosted in the portal's loop until it is closed or the process exits. Both
run the same actors, which runs of any loop or thread reach.
"""

import os
import threading
from contextlib import suppress
from types import TracebackType

import anyio
from anyio.abc import TaskGroup

from actorgraph.errors import CheckpointError, RunningLoopError, SaverBrokenError, SaverClosedError
from actorgraph.loops import current_loop, is_over
from actorgraph.ports import Saver
from actorgraph.runtime import portal
from actorgraph.runtime.log import event
from actorgraph.runtime.mailbox import Gate, wait_shielded
from actorgraph.runtime.saver.persistence import PersistenceActor
from actorgraph.runtime.saver.reading import ReadActor
from actorgraph.storage.store_clock import clock_of

DRAIN_TIMEOUT_S = 30.0

# Reentrant: the garbage collector may end a host of a loop that is over wherever it runs.
_lock = threading.RLock()


def _renew_lock() -> None:
    """Make the lock of a forked process: a thread of the parent may have held it."""
    global _lock  # noqa: PLW0603 - one of the module
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


class Host:
    """One open saver and its actors.

    Attributes:
        writer: its persistence actor.
        reader: its read actor.
        clock: of its store, by which runs are due.
        leaving: thread id -> a gate that opens when the cancelled run on it has left.
        opened: opens when the saver is open, or has failed to open.
        error: why it failed to open; None otherwise.
        closed: opens when it is closed.
        ended: whether it is closed.
        process: id of the process that made it.
        thread: id of the thread whose event loop opened it; None in the portal.
        loop: that event loop; None in the portal.
    """

    def __init__(self, saver: Saver) -> None:
        self.saver = saver
        self.process = os.getpid()
        self.thread: int | None = None
        self.loop: object = None
        self.writer = PersistenceActor(saver)
        self.reader = ReadActor(saver)
        self.clock = clock_of(saver)
        self.leaving: dict[str, Gate] = {}
        self.opened = Gate()
        self.closed = Gate()
        self.error: BaseException | None = None
        self.ended = False
        self._scope: anyio.CancelScope | None = None
        self._drain_timeout_s = DRAIN_TIMEOUT_S

    @property
    def is_left_open(self) -> bool:
        """Whether its event loop has ended without closing it: nothing answers any more."""
        return self.loop is not None and not self.ended and is_over(self.loop)

    async def close_left_open(self) -> None:
        """Close the saver of a host whose loop has ended, in another loop."""
        self._give_up(_loop_ended_error())
        try:
            await self.saver.close()
        finally:
            self.ended = True
            _detach(self)
            self.closed.open()

    async def serve(self) -> None:
        """Open the saver, run the actors until `stop`, drain, close. Shielded from cancellation."""
        # Requests that were handed over before a cancellation are still stored.
        with anyio.CancelScope(shield=True):
            try:
                await self._serve()
            finally:
                self.ended = True
                _detach(self)
                self.closed.open()

    async def _serve(self) -> None:
        try:
            await self.saver.open()
        except BaseException as error:
            self._report_open_error(error)
            raise
        self.opened.open()
        try:
            with anyio.CancelScope() as self._scope:
                async with anyio.create_task_group() as actors:
                    actors.start_soon(self.writer.serve)
                    actors.start_soon(self.reader.serve)
            # Left over only if the drain's deadline has cancelled the scope.
            withdrawn = self.writer.withdraw()
            if withdrawn:
                event("error", "drain.timeout", withdrawn=withdrawn)
        except BaseException as error:
            self._give_up(_died_error(error))
            raise
        finally:
            await self.writer.wait_for_leader()
            await self.saver.close()

    def _give_up(self, error: CheckpointError) -> None:
        """Refuse all waiting and later requests and queries."""
        # Stopped first: a request that comes between the two steps would never be answered.
        self.writer.stop(error)
        self.reader.stop(error)
        self.writer.withdraw(error)
        self.reader.refuse(error)

    def _report_open_error(self, error: BaseException) -> None:
        """Deliver the error of a saver that can't be opened to all waiting callers."""
        self.error = error
        self.opened.open()
        closed = error if isinstance(error, CheckpointError) else _open_error(error)
        self._give_up(closed)

    async def ping(self) -> None:
        """Check that the saver takes saves and answers reads.

        Raises:
            StorageError: the saver could not read.
            SaverClosedError: the saver is closed.
        """
        self.writer.check_open()
        await self.reader.ping()

    async def stop_after_runs(self, drain_timeout_s: float = DRAIN_TIMEOUT_S) -> None:
        """Wait for cancelled runs to store their work, within the deadline; then stop.

        A cancellation of the caller is raised after that.
        """
        end = anyio.current_time() + drain_timeout_s

        async def runs_left() -> None:
            with anyio.move_on_after(end - anyio.current_time()):
                for gate in list(self.leaving.values()):
                    await gate.wait()

        try:
            await wait_shielded(runs_left)
        finally:
            self.stop(drain_timeout_s)

    def stop(self, drain_timeout_s: float = DRAIN_TIMEOUT_S) -> None:
        """Refuse later requests and drain, within a deadline. Call it in the host's own loop."""
        self.writer.stop()
        self.reader.stop()
        if self._scope is not None:
            self._scope.deadline = anyio.current_time() + drain_timeout_s


def _loop_ended_error() -> SaverClosedError:
    return SaverClosedError(
        "the event loop in which this saver was opened has ended without closing it",
        do="leave the block before the loop ends; `saver.close_blocking()` closes this saver now, "
        "then it can be opened again",
    )


def _died_error(error: BaseException) -> SaverBrokenError:
    died = SaverBrokenError(
        f"the saver's actor died of {error!r}", do="open the saver again; see the cause below"
    )
    died.__cause__ = error
    return died


def _open_error(error: BaseException) -> SaverClosedError:
    closed = SaverClosedError(f"the saver could not be opened: {error}", do="see the cause below")
    closed.__cause__ = error
    return closed


_ATTRIBUTE = "_actorgraph_host"
_CLOSED = "_actorgraph_left"


def _living_host(saver: Saver) -> Host | None:
    """The saver's open host; None if it has none.

    Kept as an attribute of the saver, so that both are garbage collected together.

    Raises:
        SaverClosedError: the host belongs to the parent process, or its event loop has ended.
    """
    host: Host | None = getattr(saver, _ATTRIBUTE, None)
    if host is None or host.ended:
        return None
    if host.process != os.getpid():
        held = "its thread and its connection belong to the parent process"
        if saver.immediate:
            held = "the child's copy would change without the parent seeing it"
        raise SaverClosedError(
            f"this saver was in use when the process was forked; {held}",
            do="make a new saver in the child, or start processes with the 'spawn' method",
        )
    if host.is_left_open:
        raise _loop_ended_error()
    return host


def _detach(host: Host) -> None:
    with _lock:
        if getattr(host.saver, _ATTRIBUTE, None) is host:
            setattr(host.saver, _ATTRIBUTE, None)


def _attach(saver: Saver, host: Host) -> Host:
    setattr(saver, _ATTRIBUTE, host)
    return host


def living_host(saver: Saver) -> Host | None:
    """The host of a saver that is open or in use; None otherwise."""
    with _lock:
        return _living_host(saver)


def host_of(saver: Saver) -> Host:
    """The saver's host; starts one in the portal if the saver was not opened.

    Raises:
        SaverClosedError: its `with` block or its event loop has ended, or it belongs to another
            process.
        RunningLoopError: it is open in the event loop that a blocking call blocks.
    """
    with _lock:
        host: Host | None = getattr(saver, _ATTRIBUTE, None)
        if host is not None and (host.ended or host.process != os.getpid() or host.is_left_open):
            host = _living_host(saver)
        if host is not None:
            # The host's actors run in the loop that waits for this call: it would deadlock.
            if host.thread is not None and host.thread == portal.HELD.get():
                raise RunningLoopError(
                    "a blocking method would wait forever: the saver is open in the event loop "
                    "that the call blocks",
                    do="use the async method, whose name begins with `a`, or open the saver with "
                    "`with` and not with `async with`",
                )
            return host
        if getattr(saver, _CLOSED, False):
            raise SaverClosedError(
                "the saver's `with` block has ended", do="open it again, or use it inside the block"
            )
        host = _attach(saver, Host(saver))
        if saver.immediate:
            return host  # it needs no actor, so none is started
    # Outside the lock: the portal's thread takes it too, when a host ends.
    closer = _Closer(host)
    try:
        portal.start(_serve_logged, host, closer)
    except BaseException:
        host.ended = True
        raise
    portal.at_exit(closer)
    return host


async def _serve_logged(host: Host, closer: "_Closer") -> None:
    try:
        await host.serve()
    except Exception as error:  # noqa: BLE001 - `serve` has delivered it to all waiting callers
        event("info", "saver.failed", error=repr(error))
    finally:
        portal.not_at_exit(closer)


class _Closer:
    """Stops a host of the portal and waits for its end; runs in the portal."""

    def __init__(self, host: Host) -> None:
        self._host = host

    async def __call__(self) -> None:
        if not self._host.ended:
            await self._host.stop_after_runs()
            await self._host.closed.wait()


def mark_closed(saver: Saver, *, left: bool) -> None:
    """Note whether the saver's `with` block has ended, so that a later use can't reopen it."""
    if not saver.immediate:
        setattr(saver, _CLOSED, left)


async def _opened(host: Host) -> None:
    await host.opened.wait()
    if host.error is not None:
        raise host.error


def open_hosted(saver: Saver) -> None:
    """Open a saver in the portal, for the sync API.

    Raises:
        StorageError: it can't be opened.
    """
    host = host_of(saver)
    if not saver.immediate:
        portal.call(_opened, host)


def close_hosted(saver: Saver) -> None:
    """Close a saver that the portal hosts, for the sync API. No-op if it isn't open.

    Also one whose event loop has ended without closing it.
    """
    with _lock:
        left: Host | None = getattr(saver, _ATTRIBUTE, None)
    if left is not None and left.is_left_open and left.process == os.getpid():
        portal.call(left.close_left_open)
        return
    with _lock:
        host = _living_host(saver)
        if host is not None and saver.immediate:
            setattr(saver, _ATTRIBUTE, None)
            return
    if host is not None:
        portal.call(_Closer(host))


class OpenedSaver:
    """A saver opened with `async with`: hosted in a task group until the block ends."""

    def __init__(self, saver: Saver) -> None:
        self._host = Host(saver)
        self._group: TaskGroup | None = None

    async def enter(self) -> None:
        """Open the saver and start its actors.

        Raises:
            StorageError: it can't be opened.
        """
        saver = self._host.saver
        with _lock:
            already = _living_host(saver)
            if already is None:
                _attach(saver, self._host)
        if already is not None:
            raise SaverClosedError(
                "this saver is open or in use already",
                do="open it once, before the first run, or make a second saver of the same file",
            )
        if saver.immediate:
            return
        self._host.thread, self._host.loop = threading.get_ident(), current_loop()
        self._group = anyio.create_task_group()
        await self._group.__aenter__()
        self._group.start_soon(self._host.serve)
        try:
            # A cancellation waits for this: opening takes no longer than the busy timeout.
            await wait_shielded(self._host.opened.wait)
            if self._host.error is not None:
                raise self._host.error
        except BaseException as error:
            group, self._group = self._group, None
            self._host.stop()
            # The group holds only this error: the host is its only task.
            with suppress(BaseExceptionGroup):
                await group.__aexit__(type(error), error, error.__traceback__)
            raise

    async def exit(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Drain, within the deadline, and close."""
        if self._host.saver.immediate:
            _detach(self._host)
            return
        group, self._group = self._group, None
        if group is not None:
            # The host is shielded: a cancellation here still waits for the drain.
            try:
                await self._host.stop_after_runs()
            finally:
                await group.__aexit__(None, None, None)
