"""Questions with times: what they do by themselves, and when; pure."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorgraph.superstep.question_times import (
    due_reminders,
    next_time,
    overdue_answers,
    timings_of,
    with_first_times,
    with_reminded,
)
from actorgraph.values.alarms import EXPIRED, Timing, sleep_value
from actorgraph.values.commands import Interrupt

PLAIN = Interrupt("?", "p")


def question(
    name: str, due: int | None = None, reminders: tuple[int, ...] = (), reminded=(), own=("no",)
) -> Interrupt:
    """A question that was asked at 10."""
    timing = Timing(10, due, own if due else (), reminders, reminded=reminded)
    return Interrupt("?", name, timing=timing)


class TestNextTime:
    @pytest.mark.parametrize(
        ("questions", "at"),
        [
            ([], 0),
            ([PLAIN], 0),
            ([question("a", 50)], 50),
            ([question("a", 50), question("b", 30), PLAIN], 30),
            ([question("a", 50, (20, 40))], 20),
            ([question("a", 50, (20, 40), reminded=(20,))], 40),
            ([question("a", 50, (20, 40), reminded=(25,))], 40),
            ([question("a", 50, (20, 40), reminded=(45,))], 50),
            ([question("a", None, (20, 40), reminded=(20, 40))], 0),
            ([question("a", None, (20,)), question("b", 15)], 15),
            ([question("a", 50, (10,))], 10),
        ],
    )
    def test_it_is_the_first_of_what_is_still_to_come(self, questions, at):
        """
        The earliest reminder that hasn't been made, or due time, of all open questions.
        """
        assert next_time(questions) == at


class TestOwnAnswers:
    @pytest.mark.parametrize(
        ("questions", "now", "answers"),
        [
            ([question("a", 50)], 49, {}),
            ([question("a", 50)], 50, {"a": "no"}),
            ([question("a", 50, own=(None,))], 60, {"a": None}),
            ([question("a", 50, own=())], 50, {"a": EXPIRED}),
            ([question("a", 50), question("b", 60), PLAIN], 55, {"a": "no"}),
            ([question("a", None, (20,))], 99, {}),
        ],
    )
    def test_those_that_are_due_answer(self, questions, now, answers):
        """
        A question that is due gives its own answer, or says that it has expired.
        """
        assert overdue_answers(questions, now) == answers


class TestReminders:
    @pytest.mark.parametrize(
        ("asked", "now", "reminds"),
        [
            (question("a", 50, (20, 40)), 19, False),
            (question("a", 50, (20, 40)), 20, True),
            (question("a", 50, (20, 40)), 45, True),
            (question("a", 50, (20, 40)), 50, False),
            (question("a", 50, (20, 40), reminded=(20,)), 30, False),
            (question("a", 50, (20, 40), reminded=(20,)), 40, True),
            (question("a", 50, (20, 40), reminded=(41,)), 45, False),
            (question("a", None, (20,)), 20, True),
            (question("a", 50), 30, False),
            (PLAIN, 30, False),
        ],
    )
    def test_those_whose_time_has_come(self, asked, now, reminds):
        """
        A question reminds from its time on, once for all that it missed, and not once it is due.
        """
        assert due_reminders([asked], now) == ([asked] if reminds else [])

    def test_what_has_reminded_is_put_into_its_question(self):
        """
        The times of a row go into the question with their id; others stay as they are.
        """
        asked = question("a", 50, (20, 40))
        assert with_reminded(asked, {"a": [20]}).timing == replace(asked.timing, reminded=(20,))
        assert with_reminded(asked, {"b": [20]}) == asked
        assert with_reminded(PLAIN, {"p": [20]}) == PLAIN


class TestAskedAgain:
    def test_a_question_keeps_its_first_times(self):
        """
        Of questions that are asked again those with stored times keep them.
        """
        first, again = question("a", 50), Interrupt("?", "a", timing=Timing(30, 70, ("no",)))
        new = question("b", 90)
        known = timings_of([first, PLAIN])
        assert with_first_times((again, new, PLAIN), known) == (first, new, PLAIN)

    def test_a_sleep_says_when_it_ends_by_its_first_time(self):
        """
        A sleep that is begun again says the time at which it ends, not a later one.
        """
        timing = Timing(10, 50, (None,), sleeps=True)
        first = Interrupt(sleep_value(50), "s", timing=timing)
        again = Interrupt(sleep_value(90), "s", timing=replace(timing, asked=50, due=90))
        assert with_first_times((again,), {"s": timing}) == (first,)


TIMES = st.integers(1, 100)


@given(
    due=st.none() | st.integers(2, 120),
    reminders=st.lists(TIMES, unique=True, max_size=6),
    looks=st.lists(st.integers(0, 130), max_size=12),
)
def test_a_question_never_reminds_too_often(due, reminders, looks):
    """
    Whenever systems look: it reminds in order, once at most for each time, never early and never
    once it is due; and after each look its next time is not past, unless it is due.
    """
    times = tuple(sorted(at for at in reminders if due is None or at < due))
    asked = Interrupt("?", "q", timing=Timing(0, due, (), times))
    said: list[int] = []
    for now in sorted(looks):
        if due_reminders([asked], now):
            assert due is None or now < due
            said.append(now)
            asked = with_reminded(asked, {"q": said})
        over = overdue_answers([asked], now)
        assert bool(over) == (due is not None and due <= now)
        at = next_time([asked])
        assert over or at == 0 or at > now

        covered = [at for at in times if said and at <= said[-1]]
        assert len(said) <= len(covered)
        assert all(early <= late for early, late in zip(covered, said, strict=False))
    assert said == sorted(set(said))
