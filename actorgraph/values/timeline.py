"""The timeline of a thread: what its tasks did, and when."""

from typing import Literal, NamedTuple

from actorgraph.values.run import TaskPath

TaskStatus = Literal["done", "failed", "waiting"]


class TaskAttempt(NamedTuple):
    """One call of a task's function.

    Attributes:
        start: microseconds since 1970-01-01 UTC; None if the row is of a version without times.
        end: the same.
        status: "done", "failed", or "waiting": it ended with a question.
        error: the text of its error, or None.
    """

    start: int | None
    end: int | None
    status: TaskStatus
    error: str | None = None


class TimelineTask(NamedTuple):
    """One task of a superstep that has ended at least once.

    Attributes:
        id: the same for all its attempts, also after a crash.
        name: of the node; of a `@task` call the function's, of a step "step " and its key.
        path: its place in the superstep, as it is stored.
        status: of its last attempt.
        attempts: of all runs, in the order of their times; those without times come first.
        error: the text of its last error, even if it has finished since; or None.
        is_call: whether another task of the superstep called it: a `@task` function or a step.
    """

    id: str
    name: str
    path: TaskPath
    status: TaskStatus
    attempts: tuple[TaskAttempt, ...]
    error: str | None = None
    is_call: bool = False

    @property
    def start(self) -> int | None:
        """When its first attempt began; None if that is not known."""
        known = [attempt.start for attempt in self.attempts if attempt.start is not None]
        return min(known, default=None)

    @property
    def end(self) -> int | None:
        """When its last attempt ended; None if that is not known."""
        known = [attempt.end for attempt in self.attempts if attempt.end is not None]
        return max(known, default=None)


class TimelineStep(NamedTuple):
    """The superstep that follows one checkpoint.

    Attributes:
        step: its number: that of the checkpoint that it makes.
        checkpoint_id: the checkpoint that it follows.
        parent_id: that one's parent, or None.
        namespace: of the subgraph; "" for the thread's own graph.
        source: of the checkpoint: "input", "loop", "update" or "fork".
        run_id: the run that stored the checkpoint, or None.
        created: when that was, in microseconds since 1970-01-01 UTC.
        next: the nodes that the superstep calls, whether they have ended or not.
        tasks: those that have ended, in path order.
    """

    step: int
    checkpoint_id: str
    parent_id: str | None
    namespace: str
    source: str
    run_id: str | None
    created: int
    next: tuple[str, ...]
    tasks: tuple[TimelineTask, ...]
