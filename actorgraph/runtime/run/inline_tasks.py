"""Tasks of a blocking call: performed one after the other in the thread that made the call.

Order      the tasks of a superstep in the core's order, each stepped by the run's own task
Helpers    while tasks wait behind one that lasts, worker threads take them: the first after half
           a millisecond, then twice as many for as long as none ends. So short functions cost no
           thread, and long ones run side by side. Helpers take all beside tasks that need the
           loop, such as nested graphs, and if each task is stored when it has ended. A helper
           steps the same coroutine of the same actor; of a plain function without retries and
           cache it never has to wait
Ends       with the superstep. `cancel` interrupts the task that waits, drops those that have not
           begun, and abandons those in helpers, whose threads can't be stopped
"""

import asyncio
import threading
import time
from asyncio import _get_running_loop
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Final, Self

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from actorgraph.runtime import worker_threads
from actorgraph.runtime.broadcast import Broadcast
from actorgraph.runtime.caller import CallerLoop, Helping
from actorgraph.runtime.inline import current_runner
from actorgraph.runtime.mailbox import Gate, wait_shielded
from actorgraph.runtime.run.node_actor import NodeActor
from actorgraph.runtime.task.calling import MAX_THREADS, stepped
from actorgraph.values.ids import TaskId
from actorgraph.values.run import Event, StartTask, TaskCancelled

PATIENCE_S: Final = 0.0005
"""Seconds that a task may last before others that wait for it get a thread."""

NO_THREAD_S: Final = 0.02
"""Seconds until a thread is asked for again, if the last one could not be had."""

_LENT: Final = threading.BoundedSemaphore(MAX_THREADS)
"""The helpers of all calls of this process."""

UNBROKEN_S: Final = 0.005
"""Seconds after which other callbacks of the loop get a turn."""

Due = tuple[NodeActor, StartTask]


class InlineTasks:
    """The due tasks of one run; see the module's docstring.

    Args:
        loop: of the call.
        broadcast: whose reader may hold the next task.
    """

    def __init__(self, loop: CallerLoop, broadcast: Broadcast | None = None) -> None:
        self._loop = loop
        self._broadcast = broadcast
        self._due: deque[Due] = deque()  # helpers take from it too
        self._current: Due | None = None
        self._scope: anyio.CancelScope | None = None
        self._helped: dict[TaskId, tuple[NodeActor, Helping]] = {}
        self._reports: deque[tuple[NodeActor, StartTask, Event]] = deque()
        self._lock = threading.Lock()
        self._ended = 0
        self._helpers = 0  # threads that take tasks
        self._lent = _LENT
        self._watched = False

    @property
    def count(self) -> int:
        """The number of its tasks, begun or not."""
        return len(self._due) + len(self._helped) + (self._current is not None)

    def __bool__(self) -> bool:
        """Whether a task waits to be begun."""
        return bool(self._due)

    @property
    def works(self) -> bool:
        """Whether a task is being performed; its function may wait for something in the loop."""
        return self._current is not None

    @property
    def is_hidden(self) -> bool:
        """Whether this code, in the loop's thread, is in a function, from which the loop is hidden.

        A function may run a loop of its own.
        """
        return _get_running_loop() is not self._loop

    @property
    def is_in_task(self) -> bool:
        """Whether this code, in the loop, is in a task: a mere callback can't start others."""
        return asyncio.current_task(self._loop) is not None

    def soon(self, function: Callable[[], None]) -> None:
        """Call a function in the loop, from any thread."""
        self._loop.soon(function)

    def from_function(self, function: Callable[[], None]) -> None:
        """Call a function in the loop at once; called in a task's function."""
        runner = current_runner()
        if runner is None:
            self._loop.soon(function)
            return

        async def here() -> None:
            function()

        runner.wait(here)

    def start(self, work: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
        """Start a task in the loop."""
        return self._loop.create_task(work())

    async def wait_for(self, task: asyncio.Task[None]) -> None:
        """Wait until a task has ended, in whatever way."""
        await asyncio.wait((task,))

    def assign(self, actor: NodeActor, start: StartTask) -> None:
        """Add a task. Never waits."""
        actor.begin_here()
        self._due.append((actor, start))

    async def work(self, goes_on: Callable[[], bool]) -> None:
        """Perform tasks until none waits.

        Args:
            goes_on: asked before each task.
        Raises: a cancellation from outside; the task that it has interrupted ends with `cancel`.
        """
        try:
            with anyio.CancelScope() as self._scope:
                await self._work(goes_on)
        finally:
            self._scope = None
        self._report_interrupted()

    async def _work(self, goes_on: Callable[[], bool]) -> None:
        began = time.perf_counter()
        while goes_on() and (due := self._next()) is not None:
            if self._due:
                self._watch_due()
            self._current = due
            if self._broadcast is not None and self._broadcast.holds:
                # The loop stops where a chunk is there: its next pass is mostly that of the next
                # turn. Waiting for that pass costs less than to wait to be woken.
                await asyncio.sleep(0)
                if self._broadcast.holds:
                    await self._broadcast.wait_wanted()
                if not goes_on():  # the reader has left
                    self._current = None
                    self._due.appendleft(due)
                    return
            actor, start = due
            event = await actor.outcome(start)
            self._current = None
            self._ended += 1
            if self._reports:
                self._report_helped()  # they ended before this one, which may end the run
            actor.end_here(event)
            # Functions that never wait must not keep a Ctrl-C or an answer from the loop.
            if self._loop.is_ending or time.perf_counter() - began > UNBROKEN_S:
                await anyio.lowlevel.checkpoint()
                began = time.perf_counter()

    def _next(self) -> Due | None:
        try:
            return self._due.popleft()
        except IndexError:  # a helper may have taken the last one
            return None

    def cancel(self) -> None:
        """Stop all tasks; each sends its event."""
        while (due := self._next()) is not None:
            actor, start = due
            actor.end_here(TaskCancelled(start.task.id))
        with self._lock:
            helped, self._helped = self._helped, {}
        for identifier, (actor, helping) in helped.items():
            helping.cancel()
            actor.end_here(TaskCancelled(identifier))
        if self._scope is not None:
            self._scope.cancel()  # `work` reports it when it has unwound
        else:
            self._report_interrupted()

    def _report_interrupted(self) -> None:
        if self._current is not None:
            (actor, start), self._current = self._current, None
            actor.end_here(TaskCancelled(start.task.id))

    def lend(self) -> bool:
        """Have all tasks that wait performed by helpers; of short ones, by one after the other.

        Returns: whether there is a helper.
        """
        if not self._helpers and not self._begin_help():
            return False
        self._watch_due()
        return True

    def _begin_help(self) -> bool:
        """Start a helper; returns whether there was a thread for it."""
        if not self._lent.acquire(blocking=False):
            return False
        with self._lock:
            self._helpers += 1
        try:
            worker_threads.start(self._help)
        except RuntimeError:  # the system has no more threads
            with self._lock:
                self._end_help()
            return False
        return True

    def _end_help(self) -> None:
        self._helpers -= 1
        self._lent.release()

    def _watch_due(self) -> None:
        with self._lock:
            needed = bool(self._due) and not self._watched
            self._watched = self._watched or needed
        if needed:
            try:
                worker_threads.start(self._watch)
            except RuntimeError:  # the system has no more threads
                self._watched = False

    # --- in worker threads ---

    def _watch(self) -> None:
        """Lend threads while tasks wait and none ends."""
        seen, lent = self._ended, 1
        while True:
            with self._lock:
                if not self._due:
                    self._watched = False
                    return
            time.sleep(PATIENCE_S)
            if self._ended != seen:
                seen = self._ended
                continue
            count = min(lent, len(self._due))
            if not all(self._begin_help() for _ in range(count)):
                time.sleep(NO_THREAD_S)
            lent *= 2

    def _help(self) -> None:
        """Perform tasks that wait."""
        while True:
            with self._lock:
                try:
                    actor, start = self._due.popleft()
                except IndexError:
                    self._end_help()
                    return
                helping = Helping()
                self._helped[start.task.id] = actor, helping
            with helping:
                event = stepped(actor.outcome(start))
            self._ended += 1
            self._reports.append((actor, start, event))
            self._loop.soon(self._report_helped)

    def _report_helped(self) -> None:
        """Report the helpers' tasks that have ended, in the loop; unless they were abandoned."""
        while self._reports:
            actor, start, event = self._reports.popleft()
            with self._lock:
                known = self._helped.pop(start.task.id, None)
            if known is not None:
                actor.end_here(event)


class LateGroup:
    """A task group that opens in a task of its own when the first task is started.

    Most blocking runs need none. The caller's task can't open one later: its scopes would close
    in the wrong order.
    """

    def __init__(self) -> None:
        self.cancel_scope = anyio.CancelScope()
        self._group: TaskGroup | None = None
        self._waiting: list[tuple[Callable[..., Coroutine[Any, Any, Any]], tuple[Any, ...]]] = []
        self._task: asyncio.Task[None] | None = None
        self._leaving = Gate()

    def start_soon(self, func: Callable[..., Coroutine[Any, Any, Any]], *args: Any) -> None:
        """Start a task."""
        if self._group is not None:
            self._group.start_soon(func, *args)
            return
        self._waiting.append((func, args))
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._serve())

    async def _serve(self) -> None:
        with self.cancel_scope:
            async with anyio.create_task_group() as self._group:
                for func, args in self._waiting:
                    self._group.start_soon(func, *args)
                await self._leaving.wait()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Wait for all tasks, even if the caller is cancelled; raises their errors."""
        if self._task is None:
            return
        self._leaving.open()
        task = self._task

        async def ended() -> None:
            await asyncio.wait((task,))

        try:
            await wait_shielded(ended)
        finally:
            task.result()
