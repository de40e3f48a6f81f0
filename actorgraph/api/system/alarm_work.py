"""AlarmWork: what a system does for a thread whose alarm has come.

A question that is due is answered by a run with its own answer, as a person's answer would be: the
ids of questions decide between the two. One that reminds calls its function, and a row beside the
question says that it has.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import anyio
import anyio.to_thread

from actorgraph.api.graph.addressed import AddressedGraph
from actorgraph.api.graph.alarm_looks import Look, look_at, store_reminded
from actorgraph.api.graph.compiled import CompiledStateGraph
from actorgraph.errors import (
    AlreadyResumedError,
    ConflictError,
    SystemBusyError,
    SystemClosedError,
    ThreadBusyError,
    UnknownInterruptError,
)
from actorgraph.plan.escalations import function_at
from actorgraph.plan.plan import Plan
from actorgraph.runtime.log import event as log_event
from actorgraph.runtime.run.launch import Address
from actorgraph.runtime.saver.hosting import Host
from actorgraph.runtime.system.alarm_actor import LEASE_S
from actorgraph.runtime.system.statistics import AlarmCounts
from actorgraph.superstep.question_times import due_reminders, overdue_answers
from actorgraph.values.alarms import AlarmRow, TakeAlarm
from actorgraph.values.commands import Interrupt
from actorgraph.values.systems import ListRuns, RunRow

Answer = Callable[[str, str, Mapping[str, Any], bytes | None], Awaitable[object]]
"""Starts a run that answers questions: graph's name, thread id, interrupt id -> answer, and the run
that asked; its context and options are the new run's."""

BUSY_S = (0.0, 0.02, 0.05, *(0.1,) * 12)
"""Seconds before each look at a thread that is busy."""
ESCALATIONS = 64
"""Functions that remind that a system calls at once; those of a program's own threads are apart."""
FULL_S = 1.0
"""Seconds until a system that has room for no further run tries again."""
TRIES_S = (1.0, 5.0)
"""Seconds before each further call of a function that failed."""


class AlarmWork:
    """See the module's docstring.

    Args:
        graphs: name -> graph, of the system.
        answer: starts a run with answers.
        counts: counts what it has done.
    """

    def __init__(
        self,
        host: Host,
        graphs: Mapping[str, CompiledStateGraph],
        answer: Answer,
        counts: AlarmCounts,
    ) -> None:
        self._host = host
        self._graphs = graphs
        self._answer = answer
        self._counts = counts
        self._calls = anyio.Semaphore(ESCALATIONS)
        self._names = {graph.plan.name: name for name, graph in reversed([*graphs.items()])}

    @property
    def graphs(self) -> tuple[str, ...]:
        """The names that the alarms of the system's graphs have."""
        return tuple(self._names)

    async def look(self, row: AlarmRow) -> None:
        """Look at a thread, and do what its open questions want now.

        Nothing is done while a run of the thread is open: it sets the alarm anew when it ends. The
        alarm may be that of a run's last save, just before the thread is free, so it is tried for
        a short while.

        Raises:
            StorageError, SchemaMismatchError: the thread can't be read or written.
        """
        for pause_s in BUSY_S:
            if pause_s:
                await anyio.sleep(pause_s)
            if await self._look(row):
                return

    async def _look(self, row: AlarmRow) -> bool:
        """As `look`; returns False if a run of the thread is open."""
        name, thread_id = self._names[row.graph], row.thread_id
        now = self._host.clock.now()
        open_runs: list[RunRow] = await self._host.reader.ask(ListRuns(open_of=(thread_id,)))
        if any(run.due <= now for run in open_runs):
            return False
        graph = self._graphs[name]
        at = AddressedGraph(self._host, graph.codec, graph.plan, Address(thread_id), declared=True)
        look = await look_at(at)
        answers = overdue_answers(look.questions, now)
        if answers:
            assert look.restored is not None
            return await self._give(name, row, answers, look.restored.run)
        reminders = due_reminders(look.questions, now)
        if not reminders:
            await store_reminded(at, row, look, (), now)
        elif (row.at - now) / 1e6 > LEASE_S / 2:  # else whoever takes it next has more time
            await self._remind(at, row, look, reminders)
        return True

    async def _give(
        self, name: str, row: AlarmRow, answers: Mapping[str, Any], asked_by: bytes | None
    ) -> bool:
        thread_id = row.thread_id
        try:
            await self._answer(name, thread_id, answers, asked_by)
        except ThreadBusyError:
            return False
        except (AlreadyResumedError, UnknownInterruptError) as error:
            log_event("info", "alarm.superseded", thread_id=thread_id, error=str(error))
        except (SystemBusyError, SystemClosedError) as error:
            log_event("warning", "alarm.postponed", thread_id=thread_id, error=str(error))
            # This system, or another one, need not wait for the end of the lease.
            if isinstance(error, SystemBusyError):
                await anyio.sleep(FULL_S)
            later = int(FULL_S * 1e6) if isinstance(error, SystemClosedError) else 0
            at = self._host.clock.now() + later
            await self._host.writer.store(TakeAlarm(thread_id, row.at, at))
        else:
            self._counts.answered += len(answers)
            log_event("info", "question.due", thread_id=thread_id, interrupts=sorted(answers))
        return True

    async def _remind(
        self, at: AddressedGraph, row: AlarmRow, look: Look, questions: Sequence[Interrupt]
    ) -> None:
        """Call the functions of questions that remind, and record that they have."""
        begun = {q.id for q in questions if q.timing is not None and not q.timing.escalate}
        left_s = (row.at - self._host.clock.now()) / 1e6
        with anyio.move_on_after(left_s * 0.8):
            async with anyio.create_task_group() as group:
                for question in questions:
                    group.start_soon(self._escalate, at.plan, row.thread_id, question, begun)
        if not begun:  # there was no time left: whoever takes it next calls them
            return
        try:
            await store_reminded(at, row, look, begun, self._host.clock.now())
        except ConflictError as error:
            log_event("info", "alarm.superseded", thread_id=row.thread_id, error=str(error))
        else:
            self._counts.reminded += len(begun)

    async def _escalate(
        self, plan: Plan, thread_id: str, question: Interrupt, begun: set[str]
    ) -> None:
        done = False
        try:
            async with self._calls:
                begun.add(question.id)
                done = await _remind(plan, thread_id, question)
        finally:  # also when it takes too long
            self._counts.escalations_failed += not done


async def _remind(plan: Plan, thread_id: str, question: Interrupt) -> bool:
    """Call the function of a question that reminds, again if it fails; its last error is logged.

    Returns: whether nothing has failed.
    """
    timing = question.timing
    assert timing is not None
    known = {"thread_id": thread_id, "interrupt_id": question.id}
    log_event("info", "question.reminds", **known, times=len(timing.reminded) + 1)
    if not timing.escalate:
        return True
    function = function_at(plan, timing.escalate)
    if function is None:
        log_event("error", "escalation.unknown", **known, function=timing.escalate)
        return False
    error: object = "it takes too long"
    try:
        for pause_s in (0.0, *TRIES_S):
            await anyio.sleep(pause_s)
            try:
                await _call(function, question, len(timing.reminded) + 1)
            except Exception as failed:  # noqa: BLE001 - of the program
                error = repr(failed)
            else:
                return True
    except anyio.get_cancelled_exc_class():
        _log_failed(known, timing.escalate, error)
        raise
    _log_failed(known, timing.escalate, error)
    return False


def _log_failed(known: Mapping[str, str], function: str, error: object) -> None:
    log_event("error", "escalation.failed", **known, function=function, error=error)


async def _call(function: Callable[..., Any], question: Interrupt, times: int) -> None:
    if inspect.iscoroutinefunction(function):
        await function(question, times)
        return
    answer = await anyio.to_thread.run_sync(
        function, question, times, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1)
    )
    if inspect.isawaitable(answer):
        await answer
