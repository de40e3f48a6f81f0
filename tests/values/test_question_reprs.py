"""How questions with times are shown."""

from datetime import UTC, datetime

from actorgraph import Interrupt
from actorgraph.values.alarms import Timing, as_microseconds

NOON = as_microseconds(datetime(2026, 1, 1, 12, tzinfo=UTC))


def test_times_are_shown_as_people_read_them():
    """
    A question shows when it is due and reminds, not microseconds, nor the answer of its own.
    """
    timing = Timing(NOON, NOON, ("secret",), (NOON,))
    nap = Timing(NOON, NOON, (None,), sleeps=True)

    shown = "Timing(due=2026-01-01T12:00:00+00:00, reminds=['2026-01-01T12:00:00+00:00'])"
    assert (
        repr(Interrupt("a", "1", None, timing)) == f"Interrupt(value='a', id='1', timing={shown})"
    )
    assert "Timing(sleeps, due=2026" in repr(Interrupt("a", "1", None, nap))
    assert repr(Interrupt("a", "1")) == "Interrupt(value='a', id='1')"
