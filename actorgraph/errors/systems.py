"""Errors of an ActorSystem and of its runs."""

from actorgraph.errors.base import ActorGraphError
from actorgraph.errors.storage import ConflictError


class SystemBusyError(ActorGraphError):
    """The system is at its limit of runs, or of data that is not stored yet.

    Attributes:
        retry_after_s: seconds after which to retry; a web server answers 429 with Retry-After.
        limit: name of the limit in a web server's metrics; default "runs".
    """

    def __init__(
        self, what: str, *, do: str, retry_after_s: float = 1.0, limit: str = "runs"
    ) -> None:
        super().__init__(what, do=do)
        self.retry_after_s = retry_after_s
        self.limit = limit


class SystemClosedError(ActorGraphError, RuntimeError):
    """The system is draining, closed, or was not entered; a web server answers 503."""


class ThreadBusyError(ConflictError):
    """The thread has an active run; nothing of this one was written.

    Attributes:
        thread_id: id of the thread.
        run_id: id of the active run; "" if unknown.
    """

    def __init__(self, what: str, *, do: str, thread_id: str = "", run_id: str = "") -> None:
        super().__init__(what, do=do)
        self.thread_id = thread_id
        self.run_id = run_id


class RunNotFoundError(ActorGraphError, LookupError):
    """Neither the system nor its saver has a run of this id."""


class RunCancelledError(ActorGraphError):
    """The run was cancelled; its finished work is stored, unless it was rolled back.

    Attributes:
        reason: why it was cancelled.
        input_stored: whether its input is stored in the thread; None if unknown.
    """

    def __init__(
        self, what: str, *, do: str, reason: str = "", input_stored: bool | None = None
    ) -> None:
        super().__init__(what, do=do)
        self.reason = reason
        self.input_stored = input_stored


class RunFailedError(ActorGraphError):
    """The run failed earlier or in another process, or was parked; the text is its error's."""


class BatchInputError(ActorGraphError, ValueError):
    """The thread of a batch began with another input, or by something else; it was left as is."""


class ResultTimeoutError(ActorGraphError, TimeoutError):
    """The run did not end within the timeout of `result`; it goes on."""


class LeaseLostError(ConflictError):
    """The system could not renew its lease in time, so another process may take over its runs."""
