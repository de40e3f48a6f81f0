"""A thread's page as data: rows of steps, marks of nodes, questions, failures. Pure."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, cast

import msgspec

from actorgraph.internals import PHASE_TEXT
from actorgraph.studio.changes import changes
from actorgraph.studio.question_forms import (
    NEW,
    RAW,
    Form,
    GivenTexts,
    form_of,
    schema_of,
    without_schema,
)
from actorgraph.studio.review_forms import Review, is_review, reviews_of
from actorgraph.studio.shown import Moment, Shown, age_of, plain, shown, shown_plain
from actorgraph.studio.steps import ListedStep, checkpoint_of, recorded_of
from actorgraph.types import Interrupt, StateSnapshot
from actorgraph.web.http.question_words import times_of, times_text

TEXT_NODES = 4
"""Nodes that a step's row names."""


class StepRow(msgspec.Struct, frozen=True):
    """One step in the list.

    Attributes:
        branch: whether it is not in the line of the newest step.
        status: "waiting", "sleeping" or "failed" of its pending tasks; "" for none.
        status_text: how people read it.
    """

    checkpoint_id: str
    step: Any
    text: str
    created: Moment | None
    branch: bool
    status: str
    current: bool
    address: str
    status_text: str = ""


class Question(msgspec.Struct, frozen=True):
    """A question that waits for an answer.

    Attributes:
        text: the question itself, if its value has one; then `value` is the rest of it.
        value: None if nothing else is to be shown.
        form: of the answer; without fields if `reviews` has them.
        reviews: the tool calls to decide on, one after the other.
        asked: the value as JSON data.
        raw: the text of the box for JSON.
        times: what it does by itself, in words; "" for nothing.
        sleeps: whether it is a sleep, which has no form.
    """

    id: str
    node: str
    text: str
    value: Shown | None
    form: Form
    reviews: tuple[Review, ...]
    asked: Any
    raw: str = ""
    times: str = ""
    sleeps: bool = False


class Failure(msgspec.Struct, frozen=True):
    """A task that has failed."""

    node: str
    error: Shown
    attempts: int = 0


class ShownChange(msgspec.Struct, frozen=True):
    """One row of the table of changes; see `changes.Change`."""

    path: str
    kind: str
    before: Shown
    after: Shown


class StateView(msgspec.Struct, frozen=True):
    """The state at one step."""

    checkpoint_id: str
    step: Any
    is_head: bool
    recorded: bool
    next: tuple[str, ...]
    source: str
    run_id: str
    values: tuple[tuple[str, Shown], ...]
    changes: tuple[ShownChange, ...]
    more_changes: int


def lineage_of(steps: Sequence[ListedStep]) -> set[str]:
    """Return the ids of the newest step and of its ancestors, as far as they are in the page."""
    parents = {step.checkpoint_id: step.parent for step in steps}
    found: set[str] = set()
    at = steps[0].checkpoint_id if steps else ""
    while at and at not in found:
        found.add(at)
        at = parents.get(at, "")
    return found


def step_rows(
    steps: Sequence[ListedStep], current: str, address: str, *, from_head: bool
) -> list[StepRow]:
    """Make the rows of a page of steps.

    Args:
        current: the id of the checkpoint whose state is shown.
        address: of the thread's page.
        from_head: whether the page begins with the newest step.
    """
    line = lineage_of(steps) if from_head else {step.checkpoint_id for step in steps}
    return [
        StepRow(
            step.checkpoint_id,
            step.step,
            _text(step),
            step.created,
            step.checkpoint_id not in line,
            step.status,
            step.checkpoint_id == current,
            f"{address}?step={step.checkpoint_id}",
            PHASE_TEXT.get(step.status, ""),
        )
        for step in steps
    ]


def _text(step: ListedStep) -> str:
    names = list(dict.fromkeys(step.next))
    more = f" and {len(names) - TEXT_NODES} more" if len(names) > TEXT_NODES else ""
    then = f"then {', '.join(names[:TEXT_NODES])}{more}" if names else "the end"
    return then if step.source == "loop" else f"{step.source}: {then}"


def marks_of(step: ListedStep, done: Sequence[str]) -> list[tuple[str, str]]:
    """Return node -> state for the drawing, of the step that is shown.

    Args:
        done: nodes that ran before it.
    """
    found: dict[str, str] = dict.fromkeys(done, "done")
    found.update(step.tasks)
    return list(found.items())


def questions_of(step: StateSnapshot, refused: str = "", texts: GivenTexts = NEW) -> list[Question]:
    """Return the open questions of a step's tasks.

    Args:
        refused: the id of the question whose answer was refused.
        texts: of that answer, with the errors.
    """
    now = datetime.now(UTC)
    return [
        msgspec.structs.replace(
            _question(asked, task.name, texts if asked.id == refused else NEW),
            times=times_text(times_of([asked]), now, age_of),
            sleeps=asked.sleeps,
        )
        for task in step.tasks
        for asked in task.interrupts
    ]


def _question(asked: Interrupt, node: str, texts: GivenTexts) -> Question:
    value = plain(asked.value)
    raw = (texts.given or {}).get(RAW, "")
    if is_review(value):
        rest = {name: one for name, one in value.items() if name not in _REVIEW_KEYS}
        form = Form((), error=texts.errors.get("", ""))
        reviews = tuple(reviews_of(value, texts))
        return Question(
            asked.id, node, "", shown(rest) if rest else None, form, reviews, value, raw
        )
    form = form_of(schema_of(value, plain(asked.response_schema)), texts)
    text, rest = _text_of(without_schema(value))
    known = None if rest is None else shown(rest)
    return Question(asked.id, node, text, known, form, (), value, raw)


_REVIEW_KEYS = ("action_requests", "review_configs")
_TEXT_KEYS = ("question", "message", "prompt", "text")


def _text_of(value: Any) -> tuple[str, Any]:
    """Part a question's value into its text and what is left of it."""
    if isinstance(value, str):
        return value, None
    if isinstance(value, Mapping):
        given = cast("Mapping[str, Any]", value)
        name = next((one for one in _TEXT_KEYS if isinstance(given.get(one), str)), None)
        if name is not None:
            rest = {key: one for key, one in given.items() if key != name}
            return given[name], rest or None
    return "", value


def failures_of(step: StateSnapshot) -> list[Failure]:
    """Return the failed tasks of a step."""
    return [Failure(task.name, shown(task.error)) for task in step.tasks if task.error is not None]


def state_view(
    step: StateSnapshot, parent: StateSnapshot | None, *, is_head: bool, recorded: bool
) -> StateView:
    """Make the view of the state at a step.

    Args:
        parent: the step before; None for the first, or if it isn't known.
        is_head: whether it is the thread's newest step.
        recorded: whether later steps of it can be replayed as recorded.
    """
    metadata = recorded_of(step)
    now = plain(step.values)
    found = changes({} if parent is None else plain(parent.values), now)
    return StateView(
        checkpoint_of(step),
        metadata.get("step", ""),
        is_head,
        recorded,
        step.next,
        str(metadata.get("source", "")),
        str(metadata.get("run_id", "")),
        tuple((str(name), shown_plain(value)) for name, value in _items(now)),
        tuple(
            ShownChange(row.path, row.kind, shown_plain(row.before), shown_plain(row.after))
            for row in found.rows
        ),
        found.more,
    )


def _items(values: Any) -> list[tuple[str, Any]]:
    if isinstance(values, Mapping):
        return list(values.items())
    return [("state", values)] if values is not None else []
