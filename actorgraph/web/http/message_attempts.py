"""Which messages of a run are dropped: those of attempts that didn't end, once more is known.

A run begins anew after its process died, a task when its node's policy says so. Pure.

| event of the run | messages that are dropped |
|---|---|
| `retry` of a task | all of this task, none of those below it |
| a message of a task, after the run or a task around it began anew | all of this task before |

A task whose result is stored isn't called again, and its messages stay.
"""

from collections.abc import Mapping
from typing import Any, TypeVar, cast

T = TypeVar("T")

OPEN_MAX = 256
"""Items that are remembered: tasks, messages of each, messages whose first piece is known."""


class _Written:
    """What a task has written.

    Attributes:
        ids: of its messages, in order.
        stale: whether the attempt that wrote them is over without the task's end.
    """

    __slots__ = ("ids", "stale")

    def __init__(self) -> None:
        self.ids: dict[str, None] = {}
        self.stale = False


class MessageAttempts:
    """The messages of a run's tasks; see the module's docstring. Ids come in order of writing."""

    def __init__(self) -> None:
        self._written: dict[str, _Written] = {}  # by the namespace of the task's checkpoint

    def begin_run(self) -> None:
        """Note that an attempt of the run begins."""
        # Not by its number: that begins at 1 again after a drain.
        for one in self._written.values():
            one.stale = True

    def begin_task(self, task: str) -> list[str]:
        """Note that a task begins anew; returns the messages that are dropped."""
        for name, one in self._written.items():
            if name.startswith(f"{task}|"):
                one.stale = True
        own = self._written.pop(task, None)
        return [] if own is None else [*own.ids]

    def note(self, identifier: str, metadata: Any) -> list[str]:
        """Note a message, or a piece of one; returns the messages that are dropped.

        They may contain the message itself, if it is written anew with its id.
        """
        if not identifier or not isinstance(metadata, Mapping):
            return []
        task = cast("Mapping[str, Any]", metadata).get("langgraph_checkpoint_ns")
        if type(task) is not str:
            return []
        known = self._written.get(task)
        if known is not None and not known.stale:
            if identifier not in known.ids:
                add_bounded(known.ids, identifier, None)
            return []
        new = _Written()
        new.ids[identifier] = None
        add_bounded(self._written, task, new)
        return [] if known is None else [*known.ids]


def add_bounded(items: dict[str, T], key: str, item: T) -> None:
    """Add an item as the newest one, and drop the oldest beyond `OPEN_MAX`."""
    items.pop(key, None)
    if len(items) >= OPEN_MAX:
        del items[next(iter(items))]
    items[key] = item
