"""Lent slots: a run that waits for another run of its system lends it its slot.

Without that, runs that have all slots and wait for runs behind them would wait for ever. A run that
goes on has its slot again at once: so there may be more active runs than `max_runs` for a moment,
by those that have waited. If it waits in a worker thread, it lends that too, in the same way.
"""

import threading
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

import anyio

from actorgraph.rules.system.scheduling import RunPlace
from actorgraph.runtime.mailbox import Gate, Mailbox
from actorgraph.runtime.system.run_waits import Waiter, checked_wait, note_begun, note_left
from actorgraph.runtime.task.calling import SYSTEM_LEASE, SYSTEM_THREADS
from actorgraph.runtime.task.scope import CURRENT, TaskScope
from actorgraph.runtime.task.waiting_threads import is_busy, lend, take_back


class _Holder(Waiter, Protocol):
    """The part of a job that says whether it has a slot."""

    id: bytes
    begun: bool
    done: Gate


class _Loan:
    """The slot and the threads that a run lends while a node of it waits.

    Args:
        tasks: the tasks of it whose worker threads wait.

    Attributes:
        lent: whether the slot, and the threads, are lent.
    """

    def __init__(self, job: _Holder, tasks: Sequence[TaskScope]) -> None:
        self.job = job
        self.tasks = tasks
        self.lent = False


class LentSlots:
    """The slots that runs of one system lend.

    Args:
        fill: called when one is lent, to begin a run that waits for a slot.

    Attributes:
        on_lent: functions to call when one is lent.
    """

    def __init__(self, fill: Callable[[], None]) -> None:
        self._waits: Counter[bytes] = Counter()  # run -> places in it that wait
        self._thread = 0
        self._limiter: anyio.CapacityLimiter | None = None
        self._elsewhere: Mailbox[tuple[Callable[[_Loan], None], _Loan]] = Mailbox()
        self.on_lent: list[Callable[[], None]] = [fill]

    def __len__(self) -> int:
        return len(self._waits)

    def __contains__(self, run: object) -> bool:
        return run in self._waits

    def enter(self, job: _Holder, limiter: anyio.CapacityLimiter) -> None:
        """Note, in the context of a run, that it has a slot here; called in the system's thread.

        Args:
            limiter: limits the worker threads of its plain functions.
        """
        self._thread = threading.get_ident()
        self._limiter = limiter
        note_begun(job)
        _SLOT.set((self, job))

    def lend(self, loan: _Loan) -> None:
        """Lend what a run has; called in any thread."""
        self._here(self._lend, loan)

    def _here(self, change: Callable[[_Loan], None], loan: _Loan) -> None:
        """Make a change in the system's thread: a blocking node may wait in a loop of its own."""
        if threading.get_ident() == self._thread:
            change(loan)
        else:
            self._elsewhere.put((change, loan))

    async def serve(self) -> None:
        """Make the changes of other threads, until cancelled."""
        while True:
            change, loan = await self._elsewhere.get()
            change(loan)

    def _lend(self, loan: _Loan) -> None:
        job = loan.job
        if job.done.is_open or self._limiter is None:  # it has left meanwhile
            return
        loan.lent = True
        lend(self._limiter, loan.tasks)
        self._waits[job.id] += 1
        if self._waits[job.id] == 1:
            for notify in self.on_lent:
                notify()

    def take_back(self, loan: _Loan) -> None:
        """Take slot and threads back after a wait; no slot of a run that has left meanwhile."""
        self._here(self._take_back, loan)

    def _take_back(self, loan: _Loan) -> None:
        if not loan.lent or self._limiter is None:
            return
        take_back(self._limiter, loan.tasks)
        job = loan.job
        if job.id in self._waits:
            self._waits[job.id] -= 1
            if not self._waits[job.id]:
                del self._waits[job.id]

    def forget(self, job: _Holder) -> None:
        """Forget a run that has left its slot."""
        self._waits.pop(job.id, None)
        note_left(job)


_SLOT: ContextVar[tuple[LentSlots, _Holder] | None] = ContextVar("actorgraph_slot", default=None)
ENTERED: tuple[ContextVar[Any], ...] = (SYSTEM_THREADS, SYSTEM_LEASE, _SLOT)
"""The variables of a run's task that its nodes have too."""


@contextmanager
def slot_lent(
    target: RunPlace | None = None, *, timed: bool = False, for_events: bool = False
) -> Generator[None]:
    """Lend the slot of the run in whose node this code runs, if any, until the block ends.

    Args:
        target: the run that is waited for; None if its end doesn't matter.
        timed: whether the wait has a time limit.
        for_events: whether an event of the run is waited for, not its end.
    Raises:
        ThreadBusyError: the run that is waited for can't end before the one that waits.
    """
    held = _SLOT.get()
    if held is None or not held[1].begun or held[1].done.is_open:
        yield
        return
    slots, job = held
    loan = _Loan(job, _waiting_tasks(CURRENT.get(None)))
    with ExitStack() as stack:
        if target is not None:
            stack.enter_context(checked_wait(job, target, timed=timed, for_events=for_events))
        slots.lend(loan)
        stack.callback(slots.take_back, loan)
        yield


def in_run() -> bool:
    """Whether this code runs in a node of a run that has a slot."""
    return _SLOT.get() is not None


def leave_slot() -> None:
    """Note that the code of this context doesn't belong to the run that has started it."""
    _SLOT.set(None)


def _waiting_tasks(scope: TaskScope | None) -> list[TaskScope]:
    """The tasks, from a task to the run's own, whose functions wait in worker threads."""
    tasks: list[TaskScope] = []
    while scope is not None:
        if is_busy(scope):
            tasks.append(scope)
        scope = scope.caller or scope.run_context.above
    return tasks
