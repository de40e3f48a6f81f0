"""The work of seven core programs, in calls: a guard that no other program's load disturbs."""

import json
import threading

import pytest

from actorgraph import Codec
from tests.support import call_counts


class TestBaseline:
    """`call_counts.json`: what the programs make today."""

    def test_core_programs_make_no_more_calls_than_before(self, capsys):
        """
        No core program calls 3 % more functions a step than the stored baseline; fewer are printed.
        """
        stored = json.loads(call_counts.BASELINE.read_text("utf-8"))
        if call_counts.version() not in stored:
            pytest.skip(f"no baseline for Python {call_counts.version()}: {call_counts.RENEW}")

        baseline = stored[call_counts.version()]

        counts = call_counts.least_counts(baseline, call_counts.count_in_new_process)

        with capsys.disabled():
            for sentence in call_counts.fallen(counts, baseline):
                print(sentence)
        found = call_counts.complaints(counts, baseline)
        assert not found, f"{'; '.join(found)}: if intended, run {call_counts.RENEW} to renew"


class TestComplaints:
    """`complaints`: counts against a baseline."""

    def test_more_calls_are_named(self):
        """
        A count above the tolerance is named with both numbers; one inside of it, or below, is not.
        """
        baseline = {"more": 100.0, "fewer": 100.0, "within": 100.0}

        found = call_counts.complaints({"more": 104.0, "fewer": 96.0, "within": 102.9}, baseline)

        assert found == ["'more' makes 104 calls, baseline 100"]

    def test_fewer_calls_are_no_complaint(self):
        """
        A count that fell below the tolerance has a sentence of its own, and is never a complaint.
        """
        counts, baseline = {"fewer": 60.0, "within": 98.0}, {"fewer": 100.0, "within": 100.0}

        assert call_counts.complaints(counts, baseline) == []
        assert [text.partition(":")[0] for text in call_counts.fallen(counts, baseline)] == [
            "'fewer' makes 60 calls, baseline 100"
        ]

    def test_a_program_that_is_only_on_one_side_is_named(self):
        """
        A new program without a baseline and a baseline without its program are both named.
        """
        found = call_counts.complaints({"new": 5.0}, {"gone": 7.0})

        assert found == ["'new' makes 5 calls, baseline 0", "'gone' makes 0 calls, baseline 7"]


class TestLeastCounts:
    """`least_counts`: what several processes agree on."""

    def test_one_process_with_more_calls_is_counted_again(self):
        """
        Calls that only one process makes, on a starved machine, are not a complaint.
        """
        rounds = iter([{"a": 120.0, "b": 100.0}, {"a": 101.0, "b": 130.0}, {"a": 150.0}])

        least = call_counts.least_counts({"a": 100.0, "b": 100.0}, lambda: next(rounds))

        assert least == {"a": 101.0, "b": 100.0}

    def test_calls_that_every_process_makes_stay(self):
        """
        A program that makes more calls in each of the processes is named.
        """
        rounds = iter([{"a": 120.0}, {"a": 110.0}, {"a": 115.0}])

        least = call_counts.least_counts({"a": 100.0}, lambda: next(rounds))

        assert call_counts.complaints(least, {"a": 100.0}) == ["'a' makes 110 calls, baseline 100"]


class TestRecordedCalls:
    """`recorded_calls`: calls of the package's functions."""

    def test_only_the_packages_own_functions_count(self):
        """
        Calls of the test itself and of other packages are not counted, calls of the package are.
        """
        with call_counts.recorded_calls() as calls:
            json.dumps({})
            before = len(calls)
            call_counts.counter(call_counts.plain_count, call_counts.plain_again)

        assert before == 0
        assert len(calls) > 10

    def test_a_payload_that_looks_like_one_with_buffers_counts_no_more(self):
        """
        A number with a byte that marks binary data costs as many calls as any other number.
        """
        codec = Codec()
        codec.encode([0])  # what is prepared at the first use

        with call_counts.recorded_calls() as plain:
            codec.encode([0x11111111])
        with call_counts.recorded_calls() as marked:
            codec.encode([0x11C41111])

        assert len(marked) == len(plain)

    def test_threads_that_start_meanwhile_count(self):
        """
        Calls that a new thread makes are counted like those of the test's own thread.
        """

        def build():
            call_counts.counter(call_counts.plain_count, call_counts.plain_again)

        build()  # what is prepared at the first use
        with call_counts.recorded_calls() as here:
            build()
        with call_counts.recorded_calls() as there:
            thread = threading.Thread(target=build)
            thread.start()
            thread.join()

        assert len(there) == len(here)
