"""Hosts: a saver with its persistence actor and its read actor, in one event loop.

Opening a saver hosts it in the opener's task group. A saver that nobody opened is hosted by the
portal's loop until it is closed or the process exits. Both run the same actors, and runs of any
loop or thread reach them.
"""

import os
import threading
from contextlib import suppress
from types import TracebackType

import anyio
from anyio.abc import TaskGroup

from actorgraph.errors import (
    CheckpointError,
    RunningLoopError,
    SaverBrokenError,
    SaverClosedError,
)
from actorgraph.ports import Saver
from actorgraph.runtime import portal
from actorgraph.runtime.log import event
from actorgraph.runtime.mailbox import Gate, wait_through
from actorgraph.runtime.persistence import PersistenceActor
from actorgraph.runtime.read_actor import ReadActor

DRAIN_TIMEOUT_S = 30.0

_LOCK = threading.Lock()


class Host:
    """One open saver.

    Attributes:
        writer, reader: its actors.
        leaving: thread id -> a gate that opens when the cancelled run on it has left.
        opened: opens when the saver is open, or could not be: then `error` says why.
        closed: opens when it is closed.
        thread: of the event loop in which somebody opened it; None in the portal.
    """

    def __init__(self, saver: Saver) -> None:
        self.saver = saver
        self.process = os.getpid()
        self.thread: int | None = None
        self.writer = PersistenceActor(saver)
        self.reader = ReadActor(saver)
        self.leaving: dict[str, Gate] = {}
        self.opened = Gate()
        self.closed = Gate()
        self.error: BaseException | None = None
        self.ended = False
        self._scope: anyio.CancelScope | None = None
        self._drain_timeout_s = DRAIN_TIMEOUT_S

    async def serve(self) -> None:
        """Open the saver, run the actors until `stop`, drain, close. Immune to cancellation."""
        # Shielded: what was handed over before a cancellation is still stored.
        with anyio.CancelScope(shield=True):
            try:
                await self._serve()
            finally:
                self.ended = True
                _forget(self)
                self.closed.open()

    async def _serve(self) -> None:
        try:
            await self.saver.open()
        except BaseException as error:
            self._fail(error)
            raise
        self.opened.open()
        try:
            with anyio.CancelScope() as self._scope:
                async with anyio.create_task_group() as actors:
                    actors.start_soon(self.writer.serve)
                    actors.start_soon(self.reader.serve)
            withdrawn = self.writer.withdraw()
            if withdrawn:
                event("error", "drain.timeout", withdrawn=withdrawn)
        except BaseException as error:
            self._give_up(_died(error))
            raise
        finally:
            await self.saver.close()

    def _give_up(self, error: CheckpointError) -> None:
        """Tell everybody who waits."""
        self.writer.stop(error)
        self.reader.stop(error)
        self.writer.withdraw(error)
        self.reader.refuse(error)

    def _fail(self, error: BaseException) -> None:
        """The saver can't be opened: everybody who waits for it hears why."""
        self.error = error
        self.opened.open()
        closed = error if isinstance(error, CheckpointError) else _cannot_open(error)
        self._give_up(closed)

    async def stop_after_runs(self, drain_timeout_s: float = DRAIN_TIMEOUT_S) -> None:
        """Let the runs that are leaving store what they did, within the deadline; then stop.

        A caller who is cancelled meanwhile is so after that.
        """
        end = anyio.current_time() + drain_timeout_s

        async def runs_left() -> None:
            with anyio.move_on_after(end - anyio.current_time()):
                for gate in list(self.leaving.values()):
                    await gate.wait()

        try:
            await wait_through(runs_left)
        finally:
            self.stop(drain_timeout_s)

    def stop(self, drain_timeout_s: float = DRAIN_TIMEOUT_S) -> None:
        """Take nothing more and drain, within a deadline. From the host's own loop."""
        self.writer.stop()
        self.reader.stop()
        if self._scope is not None:
            self._scope.deadline = anyio.current_time() + drain_timeout_s


def _died(error: BaseException) -> SaverBrokenError:
    died = SaverBrokenError(
        f"the saver's actor died of {error!r}", do="open the saver again; see the cause below"
    )
    died.__cause__ = error
    return died


def _cannot_open(error: BaseException) -> SaverClosedError:
    closed = SaverClosedError(f"the saver could not be opened: {error}", do="see the cause below")
    closed.__cause__ = error
    return closed


_ATTRIBUTE = "_actorgraph_host"
_LEFT = "_actorgraph_left"


def _known(saver: Saver) -> Host | None:
    """The saver's living host. It hangs on the saver, so that both are collected together."""
    host: Host | None = getattr(saver, _ATTRIBUTE, None)
    if host is None or host.ended:
        return None
    if host.process != os.getpid():
        held = "its thread and its connection belong to the parent"
        if saver.immediate:
            held = "the child has a copy of what it holds, and would change that unseen"
        raise SaverClosedError(
            f"this saver was in use when the process was forked; {held}",
            do="make a new saver in the child, or start processes with the 'spawn' method",
        )
    return host


def _forget(host: Host) -> None:
    with _LOCK:
        if getattr(host.saver, _ATTRIBUTE, None) is host:
            setattr(host.saver, _ATTRIBUTE, None)


def _adopt(saver: Saver, host: Host) -> Host:
    setattr(saver, _ATTRIBUTE, host)
    return host


def living_host(saver: Saver) -> Host | None:
    """The host of a saver that is open or in use; None otherwise."""
    with _LOCK:
        return _known(saver)


def host_of(saver: Saver) -> Host:
    """The saver's host; one in the portal if nobody has opened it.

    Raises:
        SaverClosedError: its `with` block has ended, or it is another process's.
        RunningLoopError: it is open in the event loop that a blocking call holds up.
    """
    with _LOCK:
        host = _known(saver)
        if host is not None:
            if host.thread is not None and host.thread == portal.HELD.get():
                raise RunningLoopError(
                    "a blocking method would wait for ever: the saver is open in the event loop "
                    "that the call holds up",
                    do="use the async method, whose name begins with `a`, or open the saver with "
                    "`with` and not with `async with`",
                )
            return host
        if getattr(saver, _LEFT, False):
            raise SaverClosedError(
                "the saver's `with` block has ended", do="open it again, or use it inside the block"
            )
        host = _adopt(saver, Host(saver))
        if saver.immediate:
            return host  # needs no task
    closer = _Closer(host)
    try:
        portal.start(_serve_quietly, host, closer)
    except BaseException:
        host.ended = True
        raise
    portal.at_exit(closer)
    return host


async def _serve_quietly(host: Host, closer: "_Closer") -> None:
    try:
        await host.serve()
    except Exception as error:  # noqa: BLE001 - whoever waits has been told
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


def mark_left(saver: Saver, *, left: bool) -> None:
    """Note that the saver's `with` block has ended, so that no later use opens it unseen."""
    if not saver.immediate:
        setattr(saver, _LEFT, left)


async def _opened(host: Host) -> None:
    await host.opened.wait()
    if host.error is not None:
        raise host.error


def open_hosted(saver: Saver) -> None:
    """Open a saver in the portal, from a blocking program, so that it fails here if it can't be.

    Raises:
        StorageError: it can't be opened.
    """
    host = host_of(saver)
    if not saver.immediate:
        portal.call(_opened, host)


def close_hosted(saver: Saver) -> None:
    """Close a saver that the portal hosts, from a blocking program. No-op if nobody uses it."""
    with _LOCK:
        host = _known(saver)
        if host is not None and saver.immediate:
            setattr(saver, _ATTRIBUTE, None)
            return
    if host is not None:
        portal.call(_Closer(host))


class Opened:
    """A saver hosted in the task group of whoever opened it, until the block ends."""

    def __init__(self, saver: Saver) -> None:
        self._host = Host(saver)
        self._group: TaskGroup | None = None

    async def enter(self) -> None:
        """Open the saver and start its actors.

        Raises:
            StorageError: it can't be opened.
        """
        saver = self._host.saver
        with _LOCK:
            already = _known(saver)
            if already is None:
                _adopt(saver, self._host)
        if already is not None:
            raise SaverClosedError(
                "this saver is open or in use already",
                do="open it once, before the first run, or make a second saver of the same file",
            )
        if saver.immediate:
            return
        self._host.thread = threading.get_ident()
        self._group = anyio.create_task_group()
        await self._group.__aenter__()
        self._group.start_soon(self._host.serve)
        try:
            # Opening takes no longer than the busy timeout, so a cancellation waits for it.
            await wait_through(self._host.opened.wait)
            if self._host.error is not None:
                raise self._host.error
        except BaseException as error:
            group, self._group = self._group, None
            self._host.stop()
            with suppress(BaseExceptionGroup):  # of this error alone: the host is the only task
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
            _forget(self._host)
            return
        group, self._group = self._group, None
        if group is not None:
            # The host shields itself: a cancellation here waits for the drain all the same.
            try:
                await self._host.stop_after_runs()
            finally:
                await group.__aexit__(None, None, None)
