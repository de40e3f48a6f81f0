"""Errors as HTTP responses: `{"detail": ...}` with the matching status.

`_STATUS` maps the library's errors to statuses, the first match counts; handlers raise an
`HttpProblem`. A storage that is away, or refuses an operation, is a 503, since the request is not
to blame. An error with `retry_after_s` is a 429, any other one a 500.

The library's own errors are sent with their text, which names the culprit and says what to do. Any
other exception is sent as "Internal server error", because its text may hold a secret; the log has
it.
"""

from collections.abc import Mapping
from typing import Any, Literal

from starlette.exceptions import HTTPException
from starlette.responses import Response

from actorgraph import errors
from actorgraph.stores import StoreError
from actorgraph.web.http.jsonable import dumps


class HttpProblem(Exception):
    """An error response.

    Attributes:
        status: HTTP status code.
        detail: text of the response.
        headers: additional headers.
        closes: whether to close the connection, because the body wasn't read to its end.
    """

    status = 400

    def __init__(
        self, detail: str, *, headers: Mapping[str, str] | None = None, closes: bool = False
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.headers = dict(headers or {})
        self.closes = closes


class Unauthorized(HttpProblem):
    """401: the request is not authenticated."""

    status = 401

    def __init__(self) -> None:
        super().__init__("Authentication required", headers={"WWW-Authenticate": "Bearer"})


class Forbidden(HttpProblem):
    """403: the principal may not perform the action. For a thread it is 404 instead."""

    status = 403

    def __init__(self, action: str) -> None:
        super().__init__(f"Permission denied: {action}")


class NotFound(HttpProblem):
    """404: the resource doesn't exist, or the principal may not see it."""

    status = 404

    @classmethod
    def thread(cls, thread_id: str) -> "NotFound":
        """Make the problem of a thread: the same for a missing one and another principal's."""
        return cls(f"thread {thread_id!r} not found")

    @classmethod
    def run(cls, run_id: str) -> "NotFound":
        """Make the problem of a run: the same for a missing one and another principal's."""
        return cls(f"run {run_id!r} not found")


class Conflict(HttpProblem):
    """409: conflict with the current state of the resource."""

    status = 409


class AccessRevoked(Exception):
    """A request that stays open may not go on: its access was taken away.

    Attributes:
        status: that a new request would be answered with: 401, 403, 404; 500 if the rules failed.
        detail: text for the client.
    """

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail

    @property
    def shown(self) -> dict[str, Any]:
        """Its JSON, as of an error of a run."""
        return {"error": "AccessRevoked", "message": self.detail, "status": self.status}


Limit = Literal[
    "body_bytes",
    "body_s",
    "depth",
    "values",
    "items",
    "requests_per_s",
    "streams",
    "streams_per_client",
    "subscriptions",
    "crons_per_client",
    "webhooks",
    "webhooks_per_client",
    "assistant_versions",
    "runs",
]
"""Names of limits in metrics: fields of `Limits`, and a few more; "runs" are the system's."""


class OverLimit(HttpProblem):
    """A request is refused because of a limit.

    Attributes:
        limit: its name in metrics.
    """

    def __init__(
        self,
        detail: str,
        *,
        limit: Limit,
        headers: Mapping[str, str] | None = None,
        closes: bool = False,
    ) -> None:
        super().__init__(detail, headers=headers, closes=closes)
        self.limit = limit


class TooSlow(OverLimit):
    """408: the request's body took too long to arrive."""

    status = 408


class TooLarge(OverLimit):
    """413: the request's body is too large, or what it would be merged into."""

    status = 413


class Unsupported(HttpProblem):
    """415: the media type or encoding of the request's body is not supported."""

    status = 415


class Unprocessable(HttpProblem):
    """422: the request is invalid."""

    status = 422


class TooMuch(OverLimit, Unprocessable):
    """422: the request has or asks for more than one may."""

    status = 422


class TooMany(OverLimit):
    """429: a rate limit or a limit of open streams is exceeded."""

    status = 429


RESTART_S = 5
"""Seconds in `Retry-After` of a server that is shutting down, or whose storage is away."""

_STATUS: tuple[tuple[type[Exception], int], ...] = (
    (errors.ConflictError, 409),
    (errors.CheckpointNotFoundError, 404),
    (errors.SaverRequiredError, 409),
    (errors.SchemaMismatchError, 409),
    (errors.StorageBusyError, 503),
    (errors.StorageFullError, 507),
    (errors.DamagedRowError, 500),
    (errors.StorageError, 503),
    (errors.SaverClosedError, 503),
    (errors.SystemClosedError, 503),
    (errors.MissingExtraError, 501),
    (errors.SerializationError, 422),
    (errors.InvalidUpdateError, 422),
    (errors.EmptyInputError, 422),
    (errors.InvalidConfigError, 422),
    (errors.InvalidContextError, 422),
    (errors.UnknownInterruptError, 409),
    (errors.InvalidResumeError, 422),
    (StoreError, 422),
    (PermissionError, 404),
)


def response_to(error: Exception) -> Response:
    """Return the response for an error."""
    if isinstance(error, HttpProblem):
        return problem(error.status, error.detail, error.headers)
    if isinstance(error, HTTPException):  # raised by the application's own rules
        return problem(error.status_code, str(error.detail), error.headers or {})
    for kind, status in _STATUS:
        if isinstance(error, kind):
            return problem(
                status, public_text(type(error).__name__, str(error)), _retry(error, status)
            )
    retry_after_s: Any = getattr(error, "retry_after_s", None)
    if isinstance(retry_after_s, int | float) and isinstance(error, errors.ActorGraphError):
        return problem(429, str(error), {"Retry-After": str(max(1, round(retry_after_s)))})
    return problem(500, "Internal server error", {})


def public_text(error: str, text: str) -> str:
    """Return the text of an error for clients.

    The text of a storage error is replaced: it may contain paths, or rows of other clients that
    were in the same batch.

    Args:
        error: name of the error's type.
    """
    return _OF_THE_STORAGE.get(error, text)


def public_reason(reason: str) -> str:
    """Return the reason of a run's end, "type: text", for clients."""
    error, _, _ = reason.partition(":")
    return f"{error}: {_OF_THE_STORAGE[error]}" if error in _OF_THE_STORAGE else reason


_FAILED = "the storage failed; see the server's log for the reason"
_OF_THE_STORAGE = {
    "StorageError": _FAILED,
    "DamagedRowError": "a stored row is damaged; see the server's log for its place",
    "StorageBusyError": "the storage is busy; retry in a moment",
    "StorageFullError": "the storage has no space left; retry when space was freed",
    "SaverBrokenError": _FAILED,
    "SaverClosedError": "the storage is closed; retry when the server has restarted",
}


def _retry(error: Exception, status: int) -> dict[str, str]:
    """Return the `Retry-After` header of a 503: short for busy storage, longer for a restart."""
    soon = isinstance(error, errors.StorageBusyError | errors.SaverClosedError)
    seconds = 1 if soon else RESTART_S
    return {"Retry-After": str(seconds)} if status == 503 else {}


def problem(status: int, detail: str, headers: Mapping[str, str]) -> Response:
    """Make a response with `{"detail": ...}`."""
    return Response(dumps({"detail": detail}), status, dict(headers), "application/json")
