"""When tasks ran: each end of a task is stored with its times."""

from typing import Any

import pytest

from actorgraph.values.commands import Interrupt
from actorgraph.values.constants import ERROR, INTERRUPT
from actorgraph.values.run import (
    Task,
    TaskFailed,
    TaskInterrupted,
    TaskResult,
    TaskSucceeded,
    TaskTimes,
)
from tests.superstep.programs import Program
from tests.superstep.script import Script, chain
from tests.superstep.test_handlers import plan_of
from tests.superstep.threads import State

TIMES = TaskTimes(10, 20)
QUESTION = Interrupt("a?", "1" * 32)
LOG = (("log", ["x"]),)


def done(task: Task) -> TaskSucceeded:
    return TaskSucceeded(TaskResult(task.id, LOG, times=TIMES))


def asked(task: Task) -> TaskInterrupted:
    return TaskInterrupted(task.id, (QUESTION,), times=TIMES)


def failed(task: Task) -> TaskFailed:
    return TaskFailed(task.id, ValueError("no"), TIMES)


@pytest.mark.parametrize(
    ("plan", "ending", "kind"),
    [
        (chain(State, "a"), done, "log"),
        (chain(State, "a"), asked, INTERRUPT),
        (chain(State, "a"), failed, ERROR),
        (plan_of(), failed, ERROR),
    ],
)
def test_the_row_of_an_end_has_them(plan: Any, ending: Any, kind: str):
    """
    A result, questions and a failure, whether or not a handler follows.
    """
    run = Script(plan)
    run.begin({"log": []})
    run.saved()
    run.event(ending(run.running.pop(run.task("a").id)))

    (row,) = [row for row in run.sent[-1].ledger if row.writes[0][0] == kind]
    assert row.times == TIMES


def test_a_caller_that_returns_before_the_answer_keeps_them():
    """
    The question of its call becomes its own, and is stored with the caller's times.
    """
    run = Program("a").begun()
    caller = run.task("a")
    run.asks(run.called(caller, "step"), "step?")
    run.event(done(run.running.pop(caller.id)))

    (row,) = run.sent[-1].ledger
    assert (row.task, row.writes[0][0], row.times) == (caller.id, INTERRUPT, TIMES)
