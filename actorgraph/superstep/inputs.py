"""Whether the input of a call is stored, as said by the error of its run's refused save."""

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
    "don't pass this input again, it is stored: read get_state(config), and call with the input "
    "None to go on from there"
)
LOOK = (
    "read get_state(config) before this input is passed again: the run that took the thread over "
    "may have gone on with it"
)
_NOTHING_STORED = (ConflictError, StorageError, SerializationError)


def with_input_advice(state: RunState, error: BaseException) -> BaseException:
    """Add to the error of a refused save whether the run's input is stored, and what to do.

    Returns a copy: the saver's actor may give one error object to many runs. A subgraph's saves
    come after the root run's claim, which has the input; an error of a subgraph with a saver of
    its own is returned as it is.
    """
    if not isinstance(error, CheckpointError):
        return error
    if state.nested is not None and state.nested.claims:
        return error
    advised = _copied(error)
    if state.nested is None and not state.durable:
        nothing = isinstance(error, _NOTHING_STORED) and not isinstance(error, SaverBrokenError)
        advised.input_stored = False if nothing else None
    elif isinstance(error, LeaseLostError):
        advised.input_stored = True
    elif not isinstance(error, ConflictError) or error.do == ONE_AT_A_TIME:
        advised.input_stored, advised.do = True, f"{error.do}; then {GO_ON}"
    elif state.policy.durability is Durability.EXIT:
        # The input is stored with the claim only: the run that took the thread over has used it
        # if its own input was None.
        advised.input_stored, advised.do = None, LOOK
    else:
        advised.input_stored, advised.do = True, GO_ON
    return advised


def mark_input_stored(state: RunState, error: BaseException) -> None:
    """Make a task's error say that this run's input is stored; a call inside may have set it."""
    if isinstance(error, CheckpointError) and error.input_stored is not None:
        error.input_stored = True if state.has_saver else None


def may_begin_again(error: BaseException | None) -> bool:
    """Whether a run that ended with this error has stored nothing and may claim the thread again.

    True after a conflict: another run has the thread, or had it between this run's read and its
    claim. False if another run gave the answer, or took over the lease.
    """
    if not isinstance(error, ConflictError) or error.input_stored is not False:
        return False
    return not isinstance(error, AlreadyResumedError | LeaseLostError)


def _copied(error: CheckpointError) -> CheckpointError:
    """A copy with notes of its own, made without the constructor: a saver's class may have any."""
    kind = type(error)
    made = kind.__new__(kind, *error.args)
    vars(made).update(vars(error))
    if hasattr(error, "__notes__"):
        made.__notes__ = [*error.__notes__]
    made.__cause__, made.__context__ = error.__cause__, error.__context__
    made.__suppress_context__ = error.__suppress_context__
    return made
