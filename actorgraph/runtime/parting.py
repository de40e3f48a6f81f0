"""Parting: a run that has left lets go of itself.

A run's parts know each other: whoever reports to the supervisor holds it, and it holds them. Undone
when the run has left, its memory is free at once; else it would wait for the collector, which
has to look at every open run to find it.
"""

from actorgraph.errors import DrainTimeoutError
from actorgraph.runtime.called import Calls
from actorgraph.runtime.node_actor import Surroundings
from actorgraph.runtime.persistence import Receipts
from actorgraph.superstep.state import RunState


def part(around: Surroundings, calls: Calls, receipts: Receipts) -> None:
    """Undo what leads back to the supervisor; what is reported from now on is heard by nobody."""
    around.report = receipts.deliver = _unheard
    calls.part(_unheard)


def late(state: RunState, timeout_s: float) -> DrainTimeoutError:
    """What a run tells of whose saves nothing was heard in time."""
    return DrainTimeoutError(
        f"saves {state.durable + 1} to {state.sent} of thread {state.thread_id!r} were not "
        f"acknowledged within {timeout_s} s",
        do="ainvoke(None, config) goes on from what was stored",
    )


def _unheard(_: object) -> None:
    """Take nothing."""
