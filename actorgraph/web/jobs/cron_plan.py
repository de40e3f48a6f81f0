"""Choose the tick of a cron to start next: pure functions of its schedule and the time.

A tick is a time that matches the schedule. After a break of all servers, the first tick that was
missed is started, for all that were missed.
"""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError
from msgspec import Struct

from actorgraph.errors import InvalidConfigError

FIELDS = 5

HOURS_MAX = 24 * 31
"""Hours of missed ticks that are looked for in the agenda."""


class Timetable(Struct, frozen=True):
    """When a cron runs.

    Attributes:
        schedule: a cron expression of five fields.
        timezone: name in the IANA's database; None for UTC.
        since: only ticks after this count; UTC.
        end: no tick after this counts; UTC, None for no end.
        enabled: whether any tick counts.
    """

    schedule: str
    timezone: str | None
    since: datetime
    end: datetime | None = None
    enabled: bool = True


class StartTick(Struct, frozen=True):
    """Start the run of this tick, then note `fired`, after which the next tick counts."""

    tick: datetime
    fired: datetime


class WaitForTick(Struct, frozen=True):
    """Nothing is due before this tick."""

    tick: datetime


class NoTick(Struct, frozen=True):
    """No tick will ever be due, unless the cron is changed."""


CronDecision = StartTick | WaitForTick | NoTick


def decide_tick(timetable: Timetable, fired: datetime | None, now: datetime) -> CronDecision:
    """Decide what a cron does next.

    Args:
        fired: noted when the newest tick was started; None if none was.
        now: UTC.
    """
    if not timetable.enabled:
        return NoTick()
    after = timetable.since if fired is None else max(fired, timetable.since)
    tick = next_tick(timetable.schedule, timetable.timezone, after)
    if tick is None or (timetable.end is not None and tick > timetable.end):
        return NoTick()
    if tick > now:
        return WaitForTick(tick)
    return StartTick(tick, now)


def next_tick(schedule: str, timezone: str | None, after: datetime) -> datetime | None:
    """Return the first tick after a time, in UTC; None without one within 50 years.

    In zones with summer time, a tick in the hour that is skipped runs right after it, and one in
    the hour that comes twice runs once, unless it is of every hour or minute.
    """
    zone = UTC if timezone is None else ZoneInfo(timezone)
    try:
        found = next(CronSim(schedule, after.astimezone(zone)))
    except (StopIteration, OverflowError):
        return None
    return found.astimezone(UTC)


def next_look_s(now: datetime) -> float:
    """Return the seconds until the next time at which a tick can be: the next whole minute."""
    return 60 - (now.second + now.microsecond / 1e6)


def hour_of(moment: datetime) -> str:
    """Return the hour of a time as text, "2026-01-31T23"; later ones are greater."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H")


def hours_between(first: datetime, last: datetime) -> list[str]:
    """Return the hours from one before a time, as clocks differ, to that of another.

    At most those of `HOURS_MAX` before the last one: ticks that are older were missed anyway, and
    the crons' pages find them.
    """
    count = int((last - first).total_seconds() // 3600) + 3
    back = range(min(count, HOURS_MAX) - 1, -1, -1)
    hours = [hour_of(last - timedelta(hours=hours)) for hours in back]
    return [hour for hour in hours if hour >= hour_of(first - timedelta(hours=1))]


def check_timetable(schedule: str, timezone: str | None) -> None:
    """Refuse a schedule or a time zone that doesn't exist.

    Raises:
        InvalidConfigError: the schedule has no tick, or the zone is unknown.
    """
    if len(schedule.split()) != FIELDS:
        raise _refusal(
            f"schedule {schedule!r} must have five fields: minute, hour, day, month, day of week"
        )
    try:
        if timezone is not None:
            ZoneInfo(timezone)
    except (ValueError, OSError, KeyError) as error:
        raise _refusal(f"timezone {timezone!r} is unknown: use e.g. 'Europe/Paris'") from error
    try:
        found = next_tick(schedule, timezone, datetime(2000, 1, 1, tzinfo=UTC))
    except CronSimError as error:
        raise _refusal(f"schedule {schedule!r} is invalid: {error}") from error
    if found is None:
        raise _refusal(f"schedule {schedule!r} has no time")


def time_of(text: str | None) -> datetime | None:
    """Read an ISO 8601 time; without a zone it is UTC.

    Raises:
        InvalidConfigError: it isn't one.
    """
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise _refusal(f"end_time {text!r} is not an ISO 8601 time") from error


def _refusal(text: str) -> InvalidConfigError:
    return InvalidConfigError(
        text, do="use five fields such as '0 9 * * MON-FRI', and a name such as 'Europe/Paris'"
    )
