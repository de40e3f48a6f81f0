"""The `@task` calls that the tasks of a superstep have made."""

from collections.abc import Mapping
from typing import Any

import msgspec

from actorgraph.errors import GraphDrained
from actorgraph.values.commands import Interrupt
from actorgraph.values.run import Task


class OpenCalls(msgspec.Struct):
    """The calls of one superstep, by task ids.

    Attributes:
        due: the calls that have not started, in the order in which they were made.
        callers: call -> the task that made it, until the call has ended.
        of: task -> its open calls; a task without open calls is not in it.
        ended: the end event of each task that waits for its calls to end.
        asked: task -> the questions of its calls, by interrupt id.
        drained: task -> why a subgraph in one of its calls was drained.
        broken: the tasks of which a call was stopped because the run is leaving.
        dropped: the calls that are being stopped.
        again: those of them that were made once more.
        answers: call -> the answers that it had used in an earlier run.
    """

    due: dict[str, Task] = {}
    callers: dict[str, str] = {}
    of: dict[str, set[str]] = {}
    ended: dict[str, Any] = {}
    asked: dict[str, dict[str, Interrupt]] = {}
    drained: dict[str, GraphDrained] = {}
    broken: set[str] = set()
    dropped: set[str] = set()
    again: set[str] = set()
    answers: Mapping[str, tuple[Any, ...]] = {}

    def open(self, caller: str, task: Task) -> None:
        """Queue a call."""
        self.callers[task.id] = caller
        self.of.setdefault(caller, set()).add(task.id)
        self.due[task.id] = task

    def close(self, identifier: str) -> str:
        """Remove a call that has ended; returns the task that made it."""
        self.dropped.discard(identifier)
        self.again.discard(identifier)
        caller = self.callers.pop(identifier)
        left = self.of[caller]
        left.discard(identifier)
        if not left:
            del self.of[caller]
        return caller

    def restart(self, task: Task) -> None:
        """Queue a call again that has stopped and was made once more meanwhile."""
        self.dropped.discard(task.id)
        self.again.discard(task.id)
        self.due[task.id] = task
