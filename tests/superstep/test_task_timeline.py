"""The timeline of a superstep, read from pending writes made by hand."""

from typing import Any

import pytest

from actorgraph.superstep.snapshot import timeline_tasks
from actorgraph.values.checkpoint import StoredWrite
from actorgraph.values.constants import ERROR, INTERRUPT, NO_WRITES, NULL_TASK, RESUME
from actorgraph.values.run import FailedAttempt, TaskTimes

PATH = ("__pregel_pull", "a")


def row(index: int, generation: int, write: tuple[str, Any], times: TaskTimes | None = None):
    return StoredWrite("t", PATH, index, generation, (write,), times)


class TestAttempts:
    def test_all_attempts_of_all_runs_are_shown(self):
        """
        A task that was retried, failed, asked, and has finished shows each of its attempts.
        """
        retried = TaskTimes(30, 40, (FailedAttempt(10, 20, "first"),))
        (task,) = timeline_tasks(
            [
                row(0, 0, (NO_WRITES, None), TaskTimes(70, 80)),
                row(-3, 2, (INTERRUPT, []), TaskTimes(50, 60)),
                row(-4, 3, (RESUME, ["yes"])),
                row(-1, 1, (ERROR, "second"), retried),
            ]
        )

        shown = [(a.start, a.end, a.status, a.error) for a in task.attempts]
        assert shown == [
            (10, 20, "failed", "first"),
            (30, 40, "failed", "second"),
            (50, 60, "waiting", None),
            (70, 80, "done", None),
        ]
        assert (task.status, task.error, task.start, task.end) == ("done", "second", 10, 80)

    def test_rows_of_older_versions_have_no_times(self):
        """
        A row without times is an attempt without start and end.
        """
        (task,) = timeline_tasks([row(-1, 1, (ERROR, "boom"))])

        assert task.id == "t"
        assert [tuple(a) for a in task.attempts] == [(None, None, "failed", "boom")]
        assert (task.status, task.start, task.end) == ("failed", None, None)

    def test_they_are_in_the_order_of_their_starts(self):
        """
        Clocks of two processes may differ from the order of the runs; attempts without times
        come first.
        """
        (task,) = timeline_tasks(
            [
                row(0, 0, (NO_WRITES, None)),
                row(-3, 2, (INTERRUPT, []), TaskTimes(30, 40)),
                row(-1, 1, (ERROR, "boom"), TaskTimes(50, 60)),
            ]
        )

        assert [a.start for a in task.attempts] == [None, 30, 50]
        assert task.status == "done"

    @pytest.mark.parametrize("turn", [1, -1])
    def test_a_question_ends_a_run_in_which_the_task_has_failed_before(self, turn):
        """
        Of an error and a question of one run the question is the last, whatever comes first.
        """
        rows = [row(-1, 1, (ERROR, "boom")), row(-3, 1, (INTERRUPT, []))]
        (task,) = timeline_tasks(rows[::turn])

        assert (task.status, task.error) == ("waiting", "boom")

    def test_rows_of_no_task_are_left_out(self):
        """
        Writes of the input and errors of a fold belong to no task.
        """
        assert timeline_tasks([StoredWrite(NULL_TASK, (), 0, 0, (("n", 1),))]) == ()


class TestNames:
    def test_tasks_of_nodes_come_before_calls(self):
        """
        Nodes, Sends and calls are named; a call is marked, and comes last.
        """
        call = ("__pregel_push", "__pregel_pull, a, 0000000000, helper, __pregel_call")
        paths = [call, ("__pregel_push", 1, "b"), PATH]
        ledger = [
            StoredWrite(str(n), path, 0, 0, (("n", 1),), None) for n, path in enumerate(paths)
        ]

        found = [(task.name, task.is_call) for task in timeline_tasks(ledger)]
        assert found == [("a", False), ("b", False), ("helper", True)]

    def test_a_row_without_a_path_has_no_name(self):
        """
        Its task is known by its id alone.
        """
        (task,) = timeline_tasks([StoredWrite("t", (), 0, 0, (("n", 1),), None)])

        assert (task.id, task.name, task.is_call) == ("t", "", False)
