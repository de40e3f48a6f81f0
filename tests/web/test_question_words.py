"""The times of questions: as JSON, and in words."""

from datetime import UTC, datetime

import pytest

from actorgraph import Interrupt
from actorgraph.values.alarms import Timing, shown_times, times_in
from actorgraph.web.http.question_words import times_of, times_text

HOUR = 3_600_000_000
NOW = 500_000 * HOUR
AT = datetime(2027, 1, 15, 8, tzinfo=UTC)
"""`NOW`, as a time."""


def asked(**times) -> Interrupt:
    """A question that was asked now."""
    return Interrupt("?", "q", None, Timing(NOW, **times))


def length(seconds: float) -> str:
    return f"{seconds / 3600:g} h"


class TestJson:
    def test_times_are_text_in_utc(self):
        """
        The question's own answer and the function that it calls are not shown.
        """
        question = asked(
            due=NOW + 3 * HOUR,
            otherwise=("secret",),
            reminders=(NOW + HOUR, NOW + 2 * HOUR),
            escalate="n|boss",
            reminded=(NOW + HOUR + 7,),
        )

        assert shown_times(question.timing) == {
            "due": "2027-01-15T11:00:00+00:00",
            "remind": ["2027-01-15T09:00:00+00:00", "2027-01-15T10:00:00+00:00"],
            "reminded": ["2027-01-15T09:00:00.000007+00:00"],
            "asked": "2027-01-15T08:00:00+00:00",
            "expires": False,
            "sleeps": False,
        }

    def test_a_question_that_only_waits_shows_none(self):
        """
        Clients see the same as before of a question without times.
        """
        assert shown_times(None) == {}
        assert times_in({"value": "?", "id": "q"}) is None

    @pytest.mark.parametrize(
        "question",
        [
            asked(due=NOW + HOUR),
            asked(due=NOW + HOUR, otherwise=(None,), sleeps=True),
            asked(reminders=(NOW + 1, NOW + HOUR), reminded=(NOW + 2,)),
        ],
    )
    def test_a_client_reads_what_is_shown(self, question):
        """
        All but the question's own answer and its function comes back.
        """
        assert times_in(shown_times(question.timing)) == question.timing


class TestWords:
    @pytest.mark.parametrize(
        ("questions", "text"),
        [
            ([], ""),
            ([Interrupt("?")], ""),
            ([asked(due=NOW + 2 * HOUR, otherwise=(1,))], "answers itself in 2 h"),
            ([asked(due=NOW + 2 * HOUR)], "expires in 2 h"),
            ([asked(due=NOW, otherwise=(1,))], "answers itself now"),
            (
                [asked(due=NOW + 2 * HOUR, otherwise=(None,), sleeps=True)],
                "sleeps until 2027-01-15 10:00 UTC",
            ),
            ([asked(reminders=(NOW + HOUR,))], "reminds in 1 h"),
            ([asked(reminders=(NOW,), reminded=(NOW,))], "reminded once"),
            (
                [asked(due=NOW + HOUR, reminders=(NOW - 2, NOW - 1), reminded=(NOW - 2, NOW))],
                "expires in 1 h, reminded 2 times",
            ),
            (
                [asked(due=NOW + HOUR), asked(due=NOW + 9, otherwise=(1,)), Interrupt("?")],
                "answers itself in 2.5e-09 h",
            ),
            (
                [asked(reminders=(NOW + 2 * HOUR,)), asked(reminders=(NOW + HOUR,))],
                "reminds in 1 h",
            ),
        ],
    )
    def test_they_say_what_happens_first(self, questions, text):
        """
        Of several questions the first that answers itself counts, and the first that reminds.
        """
        assert times_text(times_of(questions), AT, length) == text
