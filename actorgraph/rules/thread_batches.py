"""Batches: what to do with the thread of one input, and in which order results are given.

A batch has one thread for each key. Running it again finds the threads as the time before has left
them; `decide_thread` chooses from that alone, so that a batch needs no list of done
threads of its own.

| the thread                                | the decision                                      |
|-------------------------------------------|---------------------------------------------------|
| has a run already, here or elsewhere      | `AwaitRun`, then decide again                     |
| has no checkpoint                         | `BeginThread`                                     |
| began with another input                  | `RefuseInput`, unless `changed="keep"`            |
| has no task left                          | `GiveOutput`                                      |
| has failed                                | `GiveFailure`; `ContinueThread` if failed="retry" |
| waits at questions                        | `AskAnswers`, or `LeaveWaiting` without answers   |
| has tasks left: it was cut off            | `ContinueThread`                                  |
"""

from collections.abc import Collection
from typing import Any, Generic, Literal, TypeVar

import msgspec

ItemT = TypeVar("ItemT")

SameInput = Literal["same", "other", "unknown"]
"""Whether a thread began with the input of the batch; "unknown" if no batch has begun it."""
WhenFailed = Literal["skip", "retry"]
WhenChanged = Literal["refuse", "keep"]


class ThreadFacts(msgspec.Struct, frozen=True):
    """The facts about a thread by which a batch decides.

    Attributes:
        busy: whether it has an open run that doesn't only wait for its time.
        exists: whether it has a checkpoint.
        input: whether it began with the batch's input.
        left: whether it has tasks left.
        failed: whether one of them has failed.
        stuck: whether all tasks have finished, and folding their writes failed.
        questions: the number of its open questions.
    """

    busy: bool = False
    exists: bool = False
    input: SameInput = "same"
    left: bool = False
    failed: bool = False
    stuck: bool = False
    questions: int = 0


class BatchRules(msgspec.Struct, frozen=True):
    """The rules of a batch.

    Attributes:
        failed: what happens to a thread that failed before.
        changed: what happens to a thread that began with another input.
        answers: whether the batch has a function that answers questions.
    """

    failed: WhenFailed = "skip"
    changed: WhenChanged = "refuse"
    answers: bool = False


class AwaitRun(msgspec.Struct, frozen=True):
    """Wait until the thread's run has ended, then look at the thread again."""


class BeginThread(msgspec.Struct, frozen=True):
    """Run the thread with its input."""


class ContinueThread(msgspec.Struct, frozen=True):
    """Run the thread's unfinished tasks.

    Attributes:
        copies: run all tasks of its superstep again, on a copy of the checkpoint.
    """

    copies: bool = False


class GiveOutput(msgspec.Struct, frozen=True):
    """Return the thread's output."""


class GiveFailure(msgspec.Struct, frozen=True):
    """Return the error with which the thread failed before."""


class AskAnswers(msgspec.Struct, frozen=True):
    """Ask the batch's function for answers, and run the thread with them if it has any."""


class LeaveWaiting(msgspec.Struct, frozen=True):
    """Return the thread's questions."""


class RefuseInput(msgspec.Struct, frozen=True):
    """Leave the thread as it is: it began with another input.

    Attributes:
        unknown: whether no batch has begun it.
    """

    unknown: bool


ThreadAction = (
    AwaitRun
    | BeginThread
    | ContinueThread
    | GiveOutput
    | GiveFailure
    | AskAnswers
    | LeaveWaiting
    | RefuseInput
)


def decide_thread(facts: ThreadFacts, rules: BatchRules) -> ThreadAction:
    """Choose what a batch does with a thread; the table is in the module's docstring.

    Never begins a thread that has a checkpoint: that would do its work twice.
    """
    if facts.busy:
        return AwaitRun()
    if not facts.exists:
        return BeginThread()
    if facts.input != "same" and rules.changed == "refuse":
        # Before anything else: also a thread that is done has the output of another input.
        return RefuseInput(facts.input == "unknown")
    if not facts.left:
        return GiveOutput()
    if facts.failed:
        return ContinueThread(facts.stuck) if rules.failed == "retry" else GiveFailure()
    if facts.questions:
        return AskAnswers() if rules.answers else LeaveWaiting()
    return ContinueThread()


def compare_marks(stored: str | None, given: str) -> SameInput:
    """Compare the mark of the input with which a thread began with that of the batch's input.

    Args:
        stored: None if the thread has none; "" if it can't be read.
        given: of the batch's input; "" if it has none.
    """
    if stored is None:
        return "unknown"
    # A mark that can't be made or read refuses nothing: a difference isn't known.
    return "same" if stored == given or not (stored and given) else "other"


def double_key(keys: Collection[str]) -> tuple[str, int, int] | None:
    """Find the first key that is used twice.

    Returns: the key and the places of its two uses, from 0; None if all differ.
    """
    seen: dict[str, int] = {}
    for place, key in enumerate(keys):
        if key in seen:
            return key, seen[key], place
        seen[key] = place
    return None


class ResultOrder(Generic[ItemT]):
    """Puts results into the order in which they are given.

    Args:
        ordered: give them in the order of the inputs; default as they come.
    """

    def __init__(self, *, ordered: bool) -> None:
        self._ordered = ordered
        self._next = 0
        self._early: dict[int, ItemT] = {}

    def add(self, place: int, item: ItemT) -> list[ItemT]:
        """Take a result; return those that may be given now.

        Args:
            place: of its input, from 0; each comes once.
        """
        if not self._ordered:
            return [item]
        self._early[place] = item
        ready: list[ItemT] = []
        while self._next in self._early:
            ready.append(self._early.pop(self._next))
            self._next += 1
        return ready


class BatchCounts(msgspec.Struct, frozen=True):
    """The progress of a batch.

    Attributes:
        name: of the batch.
        total: the number of inputs; None while it is unknown.
        done: threads that have ended well, `skipped` ones included.
        failed: threads with an error.
        waiting: threads that wait for answers.
        skipped: threads that had nothing left to run, whether done, failed or waiting.
        resumed: threads that went on from a checkpoint of an earlier run.
        running: threads that run now.
        seconds: since the batch began.
    """

    name: str
    total: int | None = None
    done: int = 0
    failed: int = 0
    waiting: int = 0
    skipped: int = 0
    resumed: int = 0
    running: int = 0
    seconds: float = 0.0

    @property
    def ended(self) -> int:
        """Threads with a result: done, failed or waiting."""
        return self.done + self.failed + self.waiting

    @property
    def rate(self) -> float:
        """Threads that were run, per second; skipped ones don't count."""
        return (self.ended - self.skipped) / self.seconds if self.seconds > 0 else 0.0

    @property
    def eta_s(self) -> float | None:
        """Seconds until the end at this rate; None while the total or the rate is unknown."""
        if self.total is None:
            return None
        left = max(0, self.total - self.ended)
        if not left:
            return 0.0
        return left / self.rate if self.rate > 0 else None

    def to_dict(self) -> dict[str, Any]:
        """The figures as plain data."""
        figures: dict[str, Any] = msgspec.structs.asdict(self)
        return {**figures, "rate": self.rate, "eta_s": self.eta_s}
