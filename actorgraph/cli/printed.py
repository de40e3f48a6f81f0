"""The results of commands: `--json` prints them, and the text is drawn from them."""

from typing import Any, Literal

import msgspec

from actorgraph.internals import ThreadPhase
from actorgraph.web.http.question_words import Times

Status = Literal["idle", "busy", "interrupted", "error"]
"""busy: it has an open run, and not one that only waits for its time. interrupted: it has tasks
left. error: one of them has failed."""


class ThreadLine(msgspec.Struct, frozen=True):
    """A thread in a list.

    Attributes:
        status: LangGraph's word.
        phase: "waiting" (for a person), "sleeping" (until its time), "cut_off" (its process has
            died), "parked", "unfinished", "failed", "running" or "ended".
        step: of its newest checkpoint; -1 without one.
        updated_at: when that was made; ISO 8601 UTC, "" without one.
        age_s: seconds since then; None without one.
        next: the nodes that run next.
        graph: the graph's name in the system that runs it; "" if unknown.
        metadata: of its newest checkpoint: what callers gave.
        error: why it can't be read; "" if it can.
        times: what its open questions do by themselves; None if they only wait.
    """

    thread_id: str
    status: Status
    phase: ThreadPhase
    step: int
    updated_at: str
    age_s: float | None
    next: tuple[str, ...]
    graph: str
    metadata: dict[str, Any]
    error: str = ""
    times: Times | None = None


class ThreadList(msgspec.Struct, frozen=True):
    """The result of `threads`.

    Attributes:
        more: whether further threads match, beyond the limit.
    """

    threads: tuple[ThreadLine, ...]
    more: bool = False


class OpenQuestion(msgspec.Struct, frozen=True):
    """A question that waits for an answer.

    Attributes:
        id: names it in `resume --answer ID=JSON`.
        node: the node that asked; several joined by " or " if that is unknown.
        response_schema: the JSON schema of its answer, if the node gave one.
        times: when it reminds and answers itself, or its sleep ends; None if it only waits.
    """

    id: str
    node: str
    value: Any
    response_schema: dict[str, Any] | None = None
    times: Times | None = None


class FailedTask(msgspec.Struct, frozen=True):
    """A task that has failed."""

    node: str
    error: str


class RunInfo(msgspec.Struct, frozen=True):
    """A run of an ActorSystem on the thread.

    Attributes:
        status: "pending", "running", or how it has ended.
        alive: whether the process that has it still renews its lease.
        created_at: ISO 8601 UTC.
        reason: why it was parked or cancelled, or its error's text.
    """

    run_id: str
    status: str
    graph: str
    alive: bool
    created_at: str
    reason: str = ""


class ThreadShown(msgspec.Struct, frozen=True):
    """The result of `show`.

    Attributes:
        checkpoint_id: the checkpoint that is shown; "" without one.
        status, phase: as of `ThreadLine`.
        age_s: seconds since the checkpoint was made; None without one.
        run: the open run of a system, or the parked one; None without one.
    """

    thread_id: str
    status: Status
    phase: ThreadPhase
    step: int
    checkpoint_id: str
    updated_at: str
    age_s: float | None
    next: tuple[str, ...]
    values: Any
    questions: tuple[OpenQuestion, ...]
    failures: tuple[FailedTask, ...]
    metadata: dict[str, Any]
    run: RunInfo | None = None


class CheckpointLine(msgspec.Struct, frozen=True):
    """A checkpoint in a history.

    Attributes:
        parent_id: "" for the first.
        source: "input", "loop", "update" or "fork".
        status: "waiting", "sleeping" or "failed" of its pending tasks; of the newest checkpoint the
            thread's phase; "" for none, and at the end.
    """

    checkpoint_id: str
    parent_id: str
    step: int
    source: str
    created_at: str
    next: tuple[str, ...]
    status: str


class ThreadHistory(msgspec.Struct, frozen=True):
    """The result of `history`: newest first.

    Attributes:
        more: whether older checkpoints exist, beyond the limit.
    """

    thread_id: str
    checkpoints: tuple[CheckpointLine, ...]
    more: bool = False


class ValueChange(msgspec.Struct, frozen=True):
    """A difference between two states.

    Attributes:
        path: such as `messages[2].content`.
        before: None for an added value.
        after: None for a removed one.
    """

    path: str
    kind: Literal["added", "changed", "removed"]
    before: Any = None
    after: Any = None


class StateDiff(msgspec.Struct, frozen=True):
    """The result of `diff`.

    Attributes:
        before: the id of the first checkpoint.
        after: the id of the second one.
        more: differences that are not listed.
    """

    thread_id: str
    before: str
    after: str
    changes: tuple[ValueChange, ...]
    more: int = 0


class MadeCheckpoint(msgspec.Struct, frozen=True):
    """The result of `fork` and `update`: the checkpoint that was made."""

    thread_id: str
    checkpoint_id: str


class CancelledRuns(msgspec.Struct, frozen=True):
    """The result of `cancel`: the thread's runs, as they are now."""

    thread_id: str
    runs: tuple[RunInfo, ...]


class RunResult(msgspec.Struct, frozen=True):
    """The result of `run` and `resume`.

    Attributes:
        status: "waiting": a question is open, or a breakpoint was reached.
        steps: supersteps that this run has finished.
        error: the text of the error that ended it.
        go_on: the command that goes on; "" without one.
    """

    thread_id: str
    status: Literal["done", "waiting", "failed", "cancelled"]
    output: Any
    questions: tuple[OpenQuestion, ...]
    steps: int
    duration_s: float
    error: str = ""
    go_on: str = ""


class TailLine(msgspec.Struct, frozen=True):
    """One line of `tail --json`.

    Attributes:
        at: ISO 8601 UTC.
        kind: "checkpoint", "event" of a system's run, or the "end" of the thread.
        text: what `tail` prints without --json.
        checkpoint: of a "checkpoint".
        event: the kind of the event.
        data: of the event.
    """

    at: str
    kind: Literal["checkpoint", "event", "end"]
    text: str
    checkpoint: CheckpointLine | None = None
    event: str = ""
    data: Any = None


class GraphDrawing(msgspec.Struct, frozen=True):
    """The result of `graph`.

    Attributes:
        path: the file that it was written to; "" for stdout.
        text: the drawing; "" of a picture that was written to a file.
    """

    format: Literal["ascii", "mermaid", "svg", "png"]
    path: str
    text: str = ""
