"""Errors of an ActorSystem: runs that it doesn't take, has lost, or can't tell about."""

from actorgraph.errors.base import ActorGraphError
from actorgraph.errors.storage import ConflictError


class SystemBusyError(ActorGraphError):
    """The system has as many runs as it takes, or too much that is not stored yet.

    Attributes:
        retry_after_s: when to ask again, in seconds; a web server answers 429 with Retry-After.
    """

    def __init__(self, what: str, *, do: str, retry_after_s: float = 1.0) -> None:
        super().__init__(what, do=do)
        self.retry_after_s = retry_after_s


class SystemClosedError(ActorGraphError, RuntimeError):
    """The system takes no runs: it drains, is closed, or was not entered; a server answers 503."""


class ThreadBusyError(ConflictError):
    """The thread has a run going on; nothing of this one was written.

    Attributes:
        thread_id: the thread. run_id: the run that has it, where that is known.
    """

    def __init__(self, what: str, *, do: str, thread_id: str = "", run_id: str = "") -> None:
        super().__init__(what, do=do)
        self.thread_id = thread_id
        self.run_id = run_id


class RunNotFoundError(ActorGraphError, LookupError):
    """The system, and its saver, know no such run."""


class RunCancelledError(ActorGraphError):
    """The run was cancelled; what it did is stored, unless it was rolled back.

    Attributes:
        reason: who cancelled it.
        input_stored: whether its input is in the thread: it had begun. None if that is not known.
    """

    def __init__(
        self, what: str, *, do: str, reason: str = "", input_stored: bool | None = None
    ) -> None:
        super().__init__(what, do=do)
        self.reason = reason
        self.input_stored = input_stored


class RunFailedError(ActorGraphError):
    """The run failed in another process, or was parked; the text is that of its error."""


class ResultTimeoutError(ActorGraphError, TimeoutError):
    """The run did not end within the seconds that `result` was to wait; it goes on."""


class LeaseLostError(ConflictError):
    """The system could not renew its lease in time, so that its runs may go on elsewhere."""
