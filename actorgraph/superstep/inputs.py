"""What the error of a refused save says about the input of the call: whether it may be repeated."""

from actorgraph.errors import (
    AlreadyResumedError,
    CheckpointError,
    ConflictError,
    LeaseLostError,
    SaverBrokenError,
    SerializationError,
    StorageError,
)
from actorgraph.superstep.state import RunState
from actorgraph.values.constants import ONE_AT_A_TIME
from actorgraph.values.policies import Durability

GO_ON = (
    "don't pass this input again, it is stored: read get_state(config) to see how the thread goes "
    "on, and call with the input None where it is to go on from there"
)
LOOK = (
    "read get_state(config) before this input is passed again: the run that took the thread over "
    "may have gone on with it"
)
_NOTHING_STORED = (ConflictError, StorageError, SerializationError)


def about_input(state: RunState, error: BaseException) -> BaseException:
    """The error with which a run ends because one of its saves was refused.

    The saver's actor may give one error to many runs, so that what is true of one run is said in
    a copy. A subgraph's saves come after the root run's claim, which has the input; one with a
    saver of its own knows nothing of that.
    """
    if not isinstance(error, CheckpointError):
        return error
    if state.nested is not None and state.nested.claims:
        return error
    told = _copied(error)
    if state.nested is None and not state.durable:
        nothing = isinstance(error, _NOTHING_STORED) and not isinstance(error, SaverBrokenError)
        told.input_stored = False if nothing else None
    elif isinstance(error, LeaseLostError):
        told.input_stored = True
    elif not isinstance(error, ConflictError) or error.do == ONE_AT_A_TIME:
        told.input_stored, told.do = True, f"{error.do}; then {GO_ON}"
    elif state.policy.durability is Durability.EXIT:
        # Its input is beside the thread: the run that took over has it if it went on with None.
        told.input_stored, told.do = None, LOOK
    else:
        told.input_stored, told.do = True, GO_ON
    return told


def of_this_run(state: RunState, error: BaseException) -> None:
    """Let the error of a task, which may be that of a call inside of it, be about this run."""
    if isinstance(error, CheckpointError) and error.input_stored is not None:
        error.input_stored = True if state.has_saver else None


def may_begin_again(error: BaseException | None) -> bool:
    """Whether a run that this error has ended has stored nothing, and may claim the thread again.

    That is so where another run has the thread, or had it between this one's look at it and its
    claim. An answer that another run has given stays given.
    """
    if not isinstance(error, ConflictError) or error.input_stored is not False:
        return False
    return not isinstance(error, AlreadyResumedError | LeaseLostError)


def _copied(error: CheckpointError) -> CheckpointError:
    """A copy with notes of its own, made without the constructor: a saver's class may have any."""
    kind = type(error)
    told = kind.__new__(kind, *error.args)
    vars(told).update(vars(error))
    if hasattr(error, "__notes__"):
        told.__notes__ = [*error.__notes__]
    told.__cause__, told.__context__ = error.__cause__, error.__context__
    told.__suppress_context__ = error.__suppress_context__
    return told
