"""Breakpoints: pauses before or after named nodes (`interrupt_before`, `interrupt_after`)."""

from collections.abc import Iterable, Sequence

from actorgraph.superstep.state import RunState
from actorgraph.superstep.tasks import is_newer
from actorgraph.values.constants import INTERRUPT
from actorgraph.values.run import Task


def pauses(state: RunState, names: Sequence[str], tasks: Iterable[Task]) -> bool:
    """Whether to pause: a task is of a named node, and a channel changed since the last pause.

    Args:
        names: node names; "*" means every node that is not hidden.
        tasks: those that have just run, or that are due.
    """
    if not names:
        return False
    seen = state.seen.get(INTERRUPT, {})
    if not any(is_newer(version, seen.get(c)) for c, version in state.versions.items()):
        return False
    if "*" in names:
        return any(not state.plan.callable[task.name].hidden for task in tasks)
    return any(task.name in names for task in tasks)
