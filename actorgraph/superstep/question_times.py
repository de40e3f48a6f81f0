"""Questions with times: what they do by themselves, and when the first of them does it."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from actorgraph.values.alarms import Timing, sleep_value
from actorgraph.values.commands import Interrupt


def next_time(questions: Iterable[Interrupt]) -> int:
    """When the first of some open questions does something; 0 for never."""
    times = (q.timing.next for q in questions if q.timing is not None)
    return min((at for at in times if at is not None), default=0)


def overdue_answers(questions: Iterable[Interrupt], now: int) -> dict[str, Any]:
    """The answers that open questions give themselves by now, by id."""
    return {
        question.id: timing.own_answer
        for question in questions
        if (timing := question.timing) is not None and timing.due is not None and timing.due <= now
    }


def due_reminders(questions: Iterable[Interrupt], now: int) -> list[Interrupt]:
    """The open questions that remind now.

    One whose time has come answers itself instead. Of several missed reminders of one question the
    newest counts: a person who was away is reminded once.
    """
    return [
        question
        for question in questions
        if (timing := question.timing) is not None
        and (timing.due is None or timing.due > now)
        and any(at <= now for at in timing.open_reminders)
    ]


def with_first_times(
    questions: tuple[Interrupt, ...], known: Mapping[str, Timing]
) -> tuple[Interrupt, ...]:
    """Questions that are asked again, with the times at which they were asked first.

    Args:
        known: interrupt id -> times of the stored questions.
    """
    if not known:
        return questions
    return tuple(
        _since(q, known[q.id]) if q.timing is not None and q.id in known else q for q in questions
    )


def _since(question: Interrupt, timing: Timing) -> Interrupt:
    own = question.timing
    assert own is not None
    if own.sleeps != timing.sleeps:
        return question  # another one, at the same place of the node
    value = sleep_value(timing.due) if timing.sleeps and timing.due else question.value
    times = replace(timing, otherwise=own.otherwise, escalate=own.escalate)
    return replace(question, value=value, timing=times)


def timings_of(questions: Iterable[Interrupt]) -> dict[str, Timing]:
    """The times of those questions that have some, by interrupt id."""
    return {q.id: q.timing for q in questions if q.timing is not None}


def with_reminded(question: Interrupt, times: Mapping[str, Any]) -> Interrupt:
    """A question with the times at which it has reminded.

    Args:
        times: interrupt id -> times.
    """
    known = times.get(question.id)
    if question.timing is None or not known:
        return question
    return replace(question, timing=replace(question.timing, reminded=tuple(known)))
