"""Break reference cycles so that a finished run is freed without the garbage collector."""

from actorgraph.errors import DrainTimeoutError
from actorgraph.runtime.called import TaskCalls
from actorgraph.runtime.node_actor import RunEnvironment
from actorgraph.runtime.persistence import Receipts
from actorgraph.superstep.state import RunState


def break_cycles(environment: RunEnvironment, calls: TaskCalls, receipts: Receipts) -> None:
    """Drop the references from a run's parts to its supervisor; later reports are ignored."""
    # The supervisor holds its parts and they hold its `_deliver`. Left to the garbage collector,
    # finished runs pile up, and each collection has to look at every open run to find them.
    environment.report = receipts.deliver = _ignore
    calls.report_to(_ignore)


def undrained_error(state: RunState, timeout_s: float) -> DrainTimeoutError:
    """Make the error of a run whose saves were not acknowledged in time."""
    return DrainTimeoutError(
        f"saves {state.durable + 1} to {state.sent} of thread {state.thread_id!r} were not "
        f"acknowledged within {timeout_s} s",
        do="ainvoke(None, config) resumes from the last stored checkpoint",
    )


def _ignore(_: object) -> None:
    pass
