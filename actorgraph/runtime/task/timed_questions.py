"""Questions with times, and sleeps: the arguments of `interrupt` that have to do with time."""

from collections.abc import Callable, Generator, Sequence
from datetime import datetime, timedelta
from typing import Any

from actorgraph.errors import InvalidConfigError, QuestionExpiredError
from actorgraph.errors.excerpts import shown
from actorgraph.plan.escalations import function_at, way_to
from actorgraph.runtime.task.scope import TaskScope, current
from actorgraph.values.alarms import (
    Timing,
    as_datetime,
    as_microseconds,
    from_now,
    is_expired,
    sleep_value,
)
from actorgraph.values.constants import NAMESPACE_END, NAMESPACE_SEPARATOR

Escalation = Callable[[Any, int], Any]
"""Called when a question reminds: with the question's `Interrupt`, and how often it has reminded,
this time included. Plain or async."""

MISSING: Any = object()


def timing_of(
    scope: TaskScope,
    due: timedelta | datetime | None,
    otherwise: Any,
    remind: Sequence[timedelta | datetime],
    escalate: Escalation | None,
) -> Timing:
    """Make the times of a question that is asked now.

    Raises:
        InvalidConfigError: an argument is invalid, or the thread's saver stores no alarms.
    """
    now = _now(scope, "interrupt(due=, remind=)")
    if otherwise is not MISSING and due is None:
        raise InvalidConfigError(
            "otherwise= says what a question answers itself when it is due, and due= is missing",
            do="pass due=, such as timedelta(hours=1)",
        )
    if escalate is not None and not remind:
        raise InvalidConfigError(
            "escalate= is called when a question reminds, and remind= is missing",
            do="pass remind=[...], such as [timedelta(hours=4), timedelta(days=1)]",
        )
    at = None if due is None else _time("due", due, now)
    reminders = sorted(_time("remind", each, now) for each in remind)
    # A length from now against a date: asked again later, it may be past that date.
    alike = [_time("remind", each, now) for each in remind if type(each) is type(due)]
    if at is not None and max(alike, default=at - 1) >= at:
        raise InvalidConfigError(
            "a question reminds until it is due; the last time of remind= is not before due=",
            do="remind earlier, or leave that time out",
        )
    reminders = [each for each in reminders if at is None or each < at]
    own = () if otherwise is MISSING else (otherwise,)
    way = "" if escalate is None else _way(scope, escalate)
    return Timing(now, at, own, tuple(reminders), way)


def sleep(length: timedelta | float) -> "Awake":
    """Leave the run until some time has passed: no task, no memory and no slot is used meanwhile.

    The thread waits as for an answer, which the clock gives; then the node runs again from its top,
    as after any question, and the call returns. An ActorSystem over the saver wakes the thread.
    Without one `invoke(None, config)` goes on with it once the time is over. `interrupts` of the
    state, and `__interrupt__` of a blocking call, have the sleep with its `due`; an answer by its
    id ends it early.

    Args:
        length: a timedelta, or seconds; 0 and less don't sleep.
    Returns: an awaitable that is done already, for `await sleep(...)` in async nodes.
    Raises:
        GraphInterrupt: the time is not over. It is a BaseException, so that `except Exception`
            doesn't catch it.
        InvalidConfigError: the argument is invalid, or the thread's saver stores no alarms.
        OutsideRunError: not called in a node.
    """
    scope = current("sleep()")
    if isinstance(length, bool) or not isinstance(length, (timedelta, int, float)):
        raise InvalidConfigError(
            f"sleep() takes a timedelta or seconds, got {shown(length)}",
            do="sleep(timedelta(days=30)), or sleep_until(datetime)",
        )
    span = length if isinstance(length, timedelta) else timedelta(seconds=length)
    return _sleep(scope, _within_calendar("length", from_now(span, _now(scope, "sleep()"))))


def sleep_until(at: datetime) -> "Awake":
    """Leave the run until a time; see `sleep`. A time that has passed doesn't sleep.

    Args:
        at: with a time zone.
    """
    scope = current("sleep_until()")
    return _sleep(scope, _time("at", at, 0))


def _sleep(scope: TaskScope, due: int) -> "Awake":
    now = _now(scope, "sleep()")
    scope.ask(sleep_value(due), timing=lambda: Timing(now, due, (None,), sleeps=True))
    return Awake()


class Awake:
    """What `sleep` returns: `await` of it is done at once."""

    def __await__(self) -> Generator[None, None, None]:
        """Return at once."""
        return
        yield


def checked_for_expiry(answer: Any) -> Any:
    """Return an answer.

    Raises:
        QuestionExpiredError: it says that the question was due, and has no `otherwise`.
    """
    if is_expired(answer):
        raise QuestionExpiredError(
            "nobody answered the question before it was due, and it has no otherwise=",
            do="pass otherwise=, or catch QuestionExpiredError around interrupt()",
        )
    return answer


def _now(scope: TaskScope, what: str) -> int:
    host = scope.run_context.host
    if host is None or not scope.run_context.thread_id:
        raise InvalidConfigError(
            f"{what} needs a saver: the thread is left and taken up again later",
            do="compile(checkpointer=...), such as SqliteSaver, and pass a thread_id",
        )
    if not getattr(host.saver, "keeps_alarms", False):
        raise InvalidConfigError(
            f"{what} needs a saver that stores alarms, which {type(host.saver).__name__} doesn't",
            do="use SqliteSaver, PostgresSaver, JsonlSaver or InMemorySaver",
        )
    return host.clock.now()


def _time(name: str, given: Any, now: int) -> int:
    if isinstance(given, timedelta):
        return _within_calendar(name, from_now(given, now))
    if not isinstance(given, datetime):
        raise InvalidConfigError(
            f"{name}= takes a timedelta or a datetime, got {shown(given)}",
            do=f"{name}=timedelta(hours=4), for example",
        )
    if given.tzinfo is None:
        raise InvalidConfigError(
            f"{name}={given!r} has no time zone, so it means another time on each machine",
            do="pass e.g. datetime.now(timezone.utc) + timedelta(hours=4)",
        )
    return as_microseconds(given)


def _within_calendar(name: str, at: int) -> int:
    """Return a time; one after the year 9999 can't be shown."""
    try:
        as_datetime(at)
    except OverflowError:
        raise InvalidConfigError(
            f"{name}= is after the year 9999, or before the year 1",
            do="leave it out for a question that waits for ever",
        ) from None
    return at


def _way(scope: TaskScope, escalate: Escalation) -> str:
    """Return the way by which a system finds the function again.

    Raises:
        InvalidConfigError: it could not be found again.
    """
    outer: Any = scope
    while outer.caller is not None:
        outer = outer.caller
    while (above := outer.run_context.above) is not None:
        outer = above
    name = getattr(escalate, "__name__", "")
    nodes = [
        part.partition(NAMESPACE_END)[0] for part in scope.task.namespace.split(NAMESPACE_SEPARATOR)
    ]
    plan = outer.run_context.state.plan
    way = way_to(nodes, name)
    if not name.isidentifier() or function_at(plan, way) is not escalate:
        raise InvalidConfigError(
            f"escalate={shown(escalate)} can't be found again by its name when the question "
            f"reminds, maybe in another process; node {nodes[-1]!r} would find {name!r} in its "
            "module, or in the function that it is defined in",
            do="pass a function that is defined or imported there under its own name",
        )
    return way
