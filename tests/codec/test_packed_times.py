"""The times of a task in its stored row."""

from actorgraph.codec.packed_times import pack_times, unpack_times
from actorgraph.codec.restore import stored_write
from actorgraph.values.constants import TIMES
from actorgraph.values.run import FailedAttempt, TaskTimes
from tests.codec.shapes import CODEC
from tests.codec.threads import row, stored


class TestPackedTimes:
    def test_they_are_read_as_they_were_stored(self):
        """
        Start, end and failed attempts come back; durations are stored, not ends.
        """
        times = TaskTimes(1_000, 1_500, (FailedAttempt(100, 300, "no"),))

        assert pack_times(times) == [1_000, 500, [100, 200, "no"]]
        assert unpack_times(pack_times(times)) == times

    def test_a_task_that_was_called_once_takes_two_numbers(self):
        """
        Most tasks have one attempt, and their rows must stay small.
        """
        assert pack_times(TaskTimes(1_000, 1_500)) == [1_000, 500]

    def test_they_are_not_a_write(self):
        """
        The times behind a task's writes are read as the row's times.
        """
        times = TaskTimes(5, 7, (FailedAttempt(1, 2, "x"),))
        values = [
            [["n", 1], [TIMES, pack_times(times)]],
            [[TIMES, pack_times(TaskTimes(3, 4))]],
            [["n", TIMES]],
        ]

        made = [stored_write(CODEC, stored(), row(CODEC.encode(value))) for value in values]
        assert [(each.writes, each.times) for each in made] == [
            ((("n", 1),), times),
            ((), TaskTimes(3, 4)),
            ((("n", TIMES),), None),
        ]
