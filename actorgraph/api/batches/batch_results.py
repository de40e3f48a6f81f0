"""ThreadResult and BatchSummary: what a batch gives for each thread, and at its end."""

from typing import Any, Generic, Literal, TypeVar

import msgspec

from actorgraph.errors.texts import error_text
from actorgraph.rules.thread_batches import BatchCounts
from actorgraph.values.commands import Interrupt

OutputT = TypeVar("OutputT")
How = Literal["started", "resumed", "skipped"]
FAILURES_MAX = 1000
"""Failures that a summary names; the others are only counted."""


class ThreadResult(msgspec.Struct, Generic[OutputT], frozen=True, kw_only=True):
    """The result of one thread of a batch.

    Attributes:
        key: of the input.
        thread_id: `name:key`.
        index: the place of the input, from 0.
        input: as given.
        status: "done", "failed", or "waiting" for answers to its questions.
        how: "started": with this call; "resumed": it went on from its last superstep;
            "skipped": nothing of it was run.
        output: as `GraphOutput.value`; of a waiting thread the state so far, of a failed one None.
        error: of a failed thread. An error of an earlier run is a `RunFailedError` with its text.
        questions: open questions; answer them with `Command(resume=...)` on the thread, or with
            `answer=` when the batch is run again.
        seconds: from its beginning in this call to its end; 0.0 for a skipped thread.
    """

    key: str
    thread_id: str
    index: int
    input: Any
    status: Literal["done", "failed", "waiting"]
    how: How
    output: OutputT | None = None
    error: Exception | None = None
    questions: tuple[Interrupt, ...] = ()
    seconds: float = 0.0


class BatchSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a batch.

    Attributes:
        counts: see `BatchCounts`.
        failures: key -> text of the error, of the first 1,000 failed threads.
        waiting: keys of the first 1,000 threads that wait for answers.
    """

    counts: BatchCounts
    failures: dict[str, str]
    waiting: tuple[str, ...]

    @property
    def is_done(self) -> bool:
        """Whether every thread has ended well."""
        return not self.counts.failed and not self.counts.waiting


class Tally:
    """Counts results as threads end.

    Args:
        name: of the batch.
        total: the number of inputs, if known.
    """

    def __init__(self, name: str, total: int | None) -> None:
        self._name = name
        self.total = total
        self.running = 0
        self._done = self._failed = self._waiting = self._skipped = self._resumed = 0
        self._failures: dict[str, str] = {}
        self._questions: list[str] = []

    def add(self, result: ThreadResult[Any]) -> None:
        """Count a result."""
        self._skipped += result.how == "skipped"
        self._resumed += result.how == "resumed"
        match result.status:
            case "done":
                self._done += 1
            case "failed":
                self._failed += 1
                if len(self._failures) < FAILURES_MAX and result.error is not None:
                    self._failures[result.key] = error_text(result.error)
            case _:
                self._waiting += 1
                if len(self._questions) < FAILURES_MAX:
                    self._questions.append(result.key)

    def counts(self, seconds: float) -> BatchCounts:
        """The counts so far, `seconds` after the beginning."""
        return BatchCounts(
            name=self._name,
            total=self.total,
            done=self._done,
            failed=self._failed,
            waiting=self._waiting,
            skipped=self._skipped,
            resumed=self._resumed,
            running=self.running,
            seconds=seconds,
        )

    def summary(self, seconds: float) -> BatchSummary:
        """The summary so far."""
        return BatchSummary(
            counts=self.counts(seconds),
            failures=dict(self._failures),
            waiting=tuple(self._questions),
        )


def how_to_go_on(counts: BatchCounts) -> str:
    """Say how far a batch is that ends early, and how to go on."""
    total = "" if counts.total is None else f" of {counts.total:,}"
    failed = f", {counts.failed:,} failed" if counts.failed else ""
    waiting = f", {counts.waiting:,} waiting" if counts.waiting else ""
    return (
        f"Batch {counts.name!r} ended early: {counts.done:,}{total} threads done{failed}{waiting}."
        " Finished work is stored: run the same batch again to go on."
    )
