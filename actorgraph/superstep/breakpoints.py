"""Breakpoints: where a run pauses without a question, before or after nodes that are named."""

from collections.abc import Iterable, Sequence

from actorgraph.superstep.state import RunState
from actorgraph.superstep.tasks import is_newer
from actorgraph.values.constants import INTERRUPT
from actorgraph.values.run import Task


def pauses(state: RunState, names: Sequence[str], tasks: Iterable[Task]) -> bool:
    """Whether to pause: a named node is concerned, and something changed since the last pause."""
    if not names:
        return False
    seen = state.seen.get(INTERRUPT, {})
    if not any(is_newer(version, seen.get(c)) for c, version in state.versions.items()):
        return False
    if "*" in names:
        return any(not state.plan.callable[task.name].hidden for task in tasks)
    return any(task.name in names for task in tasks)
