"""The times of a task in its stored row."""

from actorgraph.codec.packed_times import pack_times, unpack_times
from actorgraph.values.run import FailedAttempt, TaskTimes


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
