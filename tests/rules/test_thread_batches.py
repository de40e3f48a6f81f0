"""Decisions of a batch: about the thread of one input, its keys, and the order of results."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorgraph.rules.thread_batches import (
    AskAnswers,
    AwaitRun,
    BatchCounts,
    BatchRules,
    BeginThread,
    ContinueThread,
    GiveFailure,
    GiveOutput,
    LeaveWaiting,
    RefuseInput,
    ResultOrder,
    ThreadFacts,
    compare_marks,
    decide_thread,
    double_key,
)

PLAIN = BatchRules()
RETRY = BatchRules(failed="retry")
KEEP = BatchRules(changed="keep")
ANSWERS = BatchRules(answers=True)

FACTS = st.builds(
    ThreadFacts,
    busy=st.booleans(),
    exists=st.booleans(),
    input=st.sampled_from(["same", "other", "unknown"]),
    left=st.booleans(),
    failed=st.booleans(),
    stuck=st.booleans(),
    questions=st.integers(0, 3),
)
RULES = st.builds(
    BatchRules,
    failed=st.sampled_from(["skip", "retry"]),
    changed=st.sampled_from(["refuse", "keep"]),
    answers=st.booleans(),
)


def there(**facts):
    """A thread with a checkpoint."""
    return ThreadFacts(exists=True, **facts)


class TestDecideThread:
    @pytest.mark.parametrize(
        ("facts", "rules", "action"),
        [
            (ThreadFacts(), PLAIN, BeginThread()),
            (ThreadFacts(busy=True), PLAIN, AwaitRun()),
            (there(busy=True, left=True), RETRY, AwaitRun()),
            (there(), PLAIN, GiveOutput()),
            (there(left=True), PLAIN, ContinueThread()),
            (there(left=True, failed=True), PLAIN, GiveFailure()),
            (there(left=True, failed=True), RETRY, ContinueThread()),
            (there(left=True, failed=True, stuck=True), RETRY, ContinueThread(copies=True)),
            (there(left=True, questions=1), PLAIN, LeaveWaiting()),
            (there(left=True, questions=1), ANSWERS, AskAnswers()),
            (there(left=True, failed=True, questions=1), ANSWERS, GiveFailure()),
            (there(input="other"), PLAIN, RefuseInput(unknown=False)),
            (there(input="unknown", left=True), RETRY, RefuseInput(unknown=True)),
            (there(input="other"), KEEP, GiveOutput()),
            (there(input="unknown", left=True), KEEP, ContinueThread()),
        ],
        ids=str,
    )
    def test_one_thread(self, facts, rules, action):
        """
        The thread's facts and the batch's rules decide alone.
        """
        assert decide_thread(facts, rules) == action

    @given(FACTS, RULES)
    def test_work_is_never_done_twice(self, facts, rules):
        """
        A thread begins only without a checkpoint and a run, and goes on only with tasks left.
        """
        action = decide_thread(facts, rules)

        if isinstance(action, BeginThread):
            assert (facts.exists, facts.busy) == (False, False)
        if isinstance(action, ContinueThread | AskAnswers):
            assert facts.exists
            assert facts.left
            assert not facts.busy
            assert facts.input == "same" or rules.changed == "keep"
            assert not facts.failed or rules.failed == "retry"

    @given(FACTS, RULES)
    def test_a_done_thread_always_has_a_result(self, facts, rules):
        """
        Without tasks left and without a run, its output is given or its input is refused.
        """
        if facts.exists and not facts.busy and not facts.left:
            assert isinstance(decide_thread(facts, rules), GiveOutput | RefuseInput)


@pytest.mark.parametrize(
    ("stored", "mark", "found"),
    [
        (None, "a", "unknown"),
        ("a", "a", "same"),
        ("a", "b", "other"),
        ("", "b", "same"),
        ("a", "", "same"),
    ],
)
def test_marks_are_compared_where_both_are_known(stored, mark, found):
    """
    A thread without a mark is unknown; a mark that can't be made or read refuses nothing.
    """
    assert compare_marks(stored, mark) == found


@given(st.lists(st.sampled_from("abcdef")))
def test_the_first_key_that_is_used_twice_is_found(keys):
    """
    The places of both uses are right, and keys that all differ are not found.
    """
    found = double_key(keys)

    assert (found is None) == (len(set(keys)) == len(keys))
    if found is not None:
        key, first, second = found
        assert first < second
        assert keys[first] == keys[second] == key
        assert len(set(keys[:second])) == second


class TestResultOrder:
    @given(st.permutations(range(8)))
    def test_ordered_results_are_those_of_the_inputs(self, ends):
        """
        In whatever order threads end, each result comes once, in the order of the inputs.
        """
        order = ResultOrder(ordered=True)
        given_now = [order.add(place, place) for place in ends]

        assert [one for ready in given_now for one in ready] == list(range(8))

    def test_others_come_at_once(self):
        """
        Without an order each result is given when it is there.
        """
        order = ResultOrder(ordered=False)

        assert [order.add(place, place) for place in (2, 0, 1)] == [[2], [0], [1]]


class TestCounts:
    def test_skipped_threads_make_no_rate(self):
        """
        The rate, and with it the time left, is that of the threads that were run.
        """
        counts = BatchCounts("b", total=100, done=50, skipped=30, failed=2, seconds=11.0)

        assert counts.ended == 52
        assert counts.rate == 2.0
        assert counts.eta_s == 24.0
        assert counts.to_dict()["eta_s"] == 24.0

    @pytest.mark.parametrize(
        ("counts", "eta_s"),
        [
            (BatchCounts("b", seconds=1.0, done=1), None),
            (BatchCounts("b", total=4), None),
            (BatchCounts("b", total=4, done=4), 0.0),
        ],
    )
    def test_the_time_left_may_be_unknown(self, counts, eta_s):
        """
        Without a total or a rate nothing is promised; at the end nothing is left.
        """
        assert counts.eta_s == eta_s


def test_the_figures_of_a_batch_as_plain_data():
    """
    All that were counted, the rate, and the seconds that are left.
    """
    counts = BatchCounts("b", total=10, done=3, failed=1, waiting=1, skipped=1, seconds=2.0)

    assert counts.to_dict() == {
        "name": "b",
        "total": 10,
        "done": 3,
        "failed": 1,
        "waiting": 1,
        "skipped": 1,
        "resumed": 0,
        "running": 0,
        "seconds": 2.0,
        "rate": 2.0,
        "eta_s": 2.5,
    }
