"""What a superstep knows of the calls that its tasks have made."""

from collections.abc import Mapping
from typing import Any

import msgspec

from actorgraph.errors import GraphDrained
from actorgraph.values.commands import Interrupt
from actorgraph.values.run import Task


class OpenCalls(msgspec.Struct):
    """The calls of one superstep, by task ids.

    Attributes:
        due: those that wait for a place, in the order in which they were made.
        callers: call -> the task that made it, until the call has ended.
        of: the other way round; a task without open calls is not in it.
        ended: how a task has ended that waits for its calls to end.
        asked, drained: what the calls of a task asked; why one of them stopped.
        broken: the tasks of which a call was stopped because the run is leaving.
        dropped, again: the calls that are told to stop; those of them that were made once more.
        answers: what calls of an earlier run had been answered.
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
        """Note a call that is to run."""
        self.callers[task.id] = caller
        self.of.setdefault(caller, set()).add(task.id)
        self.due[task.id] = task

    def close(self, identifier: str) -> str:
        """Forget a call that has ended; who made it."""
        self.dropped.discard(identifier)
        self.again.discard(identifier)
        caller = self.callers.pop(identifier)
        left = self.of[caller]
        left.discard(identifier)
        if not left:
            del self.of[caller]
        return caller

    def restart(self, task: Task) -> None:
        """Have a call run from its begin that has stopped and was made once more."""
        self.dropped.discard(task.id)
        self.again.discard(task.id)
        self.due[task.id] = task
