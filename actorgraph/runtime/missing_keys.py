"""A note on the error of a node that reads a key for which the state has no value yet."""

from collections.abc import Mapping
from typing import Any

from actorgraph.errors.telling import add_note
from actorgraph.plan.graph import NodePlan
from actorgraph.values.run import Task


def note_missing(
    error: BaseException, task: Task, node: NodePlan, values: Mapping[str, Any]
) -> None:
    """Add a note to a node's KeyError if its key is a state key without a value.

    Other keys, such as those of a dict of the node's own, get no note; nor do tasks of a Send,
    which does not read the state.

    Args:
        values: the state that the task has read.
    """
    key = error.args[0] if isinstance(error, KeyError) and len(error.args) == 1 else None
    if isinstance(key, str) and key in node.reads and key not in values and task.input is None:
        add_note(
            error,
            f"The state has no {key!r} yet: no input and no node has given it a value.\n"
            f"  Do this: pass it in the input, let a node before {task.name!r} return it, or read "
            f"it with state.get({key!r})",
        )
