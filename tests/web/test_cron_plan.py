"""Which tick of a cron is next, by hand-fed times."""

from datetime import UTC, datetime, timedelta

import pytest

from actorgraph.errors import InvalidConfigError
from actorgraph.web.jobs.cron_plan import (
    NoTick,
    StartTick,
    Timetable,
    WaitForTick,
    check_timetable,
    decide_tick,
    next_tick,
    time_of,
)


def at(text: str) -> datetime:
    """A time in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


HOURLY = Timetable("0 * * * *", None, at("2026-01-01T00:30"))


@pytest.mark.parametrize(
    ("timetable", "fired", "now", "expected"),
    [
        (HOURLY, None, "2026-01-01T00:59:59", WaitForTick(at("2026-01-01T01:00"))),
        (
            HOURLY,
            None,
            "2026-01-01T01:00",
            StartTick(at("2026-01-01T01:00"), at("2026-01-01T01:00")),
        ),
        # Missed from 01:00 to 05:00: one run, and the next one at 06:00.
        (
            HOURLY,
            None,
            "2026-01-01T05:10",
            StartTick(at("2026-01-01T01:00"), at("2026-01-01T05:10")),
        ),
        (HOURLY, "2026-01-01T05:10", "2026-01-01T05:11", WaitForTick(at("2026-01-01T06:00"))),
        # Noted under an earlier timetable: what is before `since` doesn't count.
        (HOURLY, "2025-12-01T00:00", "2026-01-01T00:31", WaitForTick(at("2026-01-01T01:00"))),
        # A server whose clock was behind notes an earlier time: the tick is not due again.
        (HOURLY, "2026-01-01T01:00", "2026-01-01T00:59", WaitForTick(at("2026-01-01T02:00"))),
    ],
)
def test_ticks(timetable, fired, now, expected):
    """
    A tick is started once it is due, one for all that were missed.
    """
    assert decide_tick(timetable, at(fired) if fired else None, at(now)) == expected


@pytest.mark.parametrize(
    "timetable",
    [
        Timetable("0 * * * *", None, HOURLY.since, enabled=False),
        Timetable("0 * * * *", None, HOURLY.since, end=at("2026-01-01T00:59")),
    ],
)
def test_crons_that_are_over(timetable):
    """
    A cron that is disabled, or whose end is before its next tick, starts nothing.
    """
    assert decide_tick(timetable, None, at("2026-06-01T00:00")) == NoTick()


def test_the_last_tick_is_at_the_end():
    """
    A tick at the end time itself counts.
    """
    timetable = Timetable("0 * * * *", None, HOURLY.since, end=at("2026-01-01T01:00"))
    decision = decide_tick(timetable, None, at("2026-01-01T01:00"))

    assert isinstance(decision, StartTick)
    assert decide_tick(timetable, decision.fired, at("2026-01-01T02:00")) == NoTick()


@pytest.mark.parametrize(
    ("schedule", "zone", "after", "expected"),
    [
        ("30 9 * * MON-FRI", "Europe/Paris", "2026-01-02T12:00", "2026-01-05T08:30"),
        ("30 9 * * 1-5", "Europe/Paris", "2026-07-03T12:00", "2026-07-06T07:30"),
        ("*/15 * * * *", None, "2026-01-01T00:01", "2026-01-01T00:15"),
        ("0 0 29 2 *", None, "2026-01-01T00:00", "2028-02-29T00:00"),
        # 02:30 doesn't exist on that day: right after the change. Twice on the other: once.
        ("30 2 * * *", "Europe/Paris", "2026-03-28T12:00", "2026-03-29T01:00"),
        ("30 2 * * *", "Europe/Paris", "2026-10-24T12:00", "2026-10-25T00:30"),
        ("30 2 * * *", "Europe/Paris", "2026-10-25T00:30", "2026-10-26T01:30"),
    ],
)
def test_schedules(schedule, zone, after, expected):
    """
    Times are those of the zone, also where its clocks change.
    """
    assert next_tick(schedule, zone, at(after)) == at(expected)


@pytest.mark.parametrize(
    ("schedule", "zone", "text"),
    [
        ("* * * *", None, "five fields"),
        ("* * * * * *", None, "five fields"),
        ("60 * * * *", None, "invalid"),
        ("0 0 31 2 *", None, "invalid"),
        ("@daily x x x x", None, "invalid"),
        ("* * * * *", "Mars/Olympus", "timezone"),
        ("* * * * *", "../../etc/passwd", "timezone"),
        ("* * * * *", "", "timezone"),
    ],
)
def test_bad_timetables_are_refused(schedule, zone, text):
    """
    A schedule without a time and an unknown zone are refused when the cron is made.
    """
    with pytest.raises(InvalidConfigError, match=text):
        check_timetable(schedule, zone)


def test_times_are_read():
    """
    An end time without a zone is UTC; other text is refused.
    """
    assert time_of("2026-01-01T02:00:00+02:00") == time_of("2026-01-01T00:00:00")
    assert time_of(None) is None
    with pytest.raises(InvalidConfigError, match="end_time"):
        time_of("tomorrow")


def test_next_ticks_never_go_back():
    """
    Each tick is after the time it is asked for.
    """
    tick = at("2026-03-28T00:00")
    for _ in range(200):
        following = next_tick("*/20 1-3 * * *", "Europe/Paris", tick)
        assert following is not None
        assert following - tick >= timedelta(minutes=20)
        tick = following
