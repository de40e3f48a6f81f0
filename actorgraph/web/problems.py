"""Errors as HTTP answers: `{"detail": ...}` with the status that fits.

What the library raises on purpose is told as it is: it names the culprit and says what to do. What
it doesn't know is told as "internal error", because its text may hold a secret; the log has it.
"""

from collections.abc import Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import Response

from actorgraph import errors
from actorgraph.stores import StoreError
from actorgraph.web.jsonable import dumps


class HttpProblem(Exception):
    """A request that is answered with an error.

    Attributes:
        status: of the answer. headers: more of them.
        closes: whether the connection is closed, because the body wasn't read to its end.
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
    """Nobody is known to have sent it."""

    status = 401

    def __init__(self) -> None:
        super().__init__("sign in first", headers={"WWW-Authenticate": "Bearer"})


class Forbidden(HttpProblem):
    """It is not allowed, and about no thread."""

    status = 403

    def __init__(self, action: str) -> None:
        super().__init__(f"{action} is not allowed")


class NotFound(HttpProblem):
    """What it is about isn't there, or isn't the principal's."""

    status = 404

    @classmethod
    def thread(cls, thread_id: str) -> "NotFound":
        """One about a thread: the same whether it is another's or nobody's."""
        return cls(f"thread {thread_id!r} not found")


class Conflict(HttpProblem):
    """It can't be done as things are now."""

    status = 409


class TooSlow(HttpProblem):
    """Its body took too long."""

    status = 408


class TooLarge(HttpProblem):
    """Its body is too long."""

    status = 413


class Unsupported(HttpProblem):
    """Its body has a form that isn't taken."""

    status = 415


class Unprocessable(HttpProblem):
    """It says something that can't be done at all."""

    status = 422


class TooMany(HttpProblem):
    """Later."""

    status = 429


RESTART_S = 5
"""What a server that stops says in `Retry-After`."""

_STATUS: tuple[tuple[type[Exception], int], ...] = (
    (errors.ConflictError, 409),
    (errors.CheckpointNotFoundError, 404),
    (errors.SaverRequiredError, 409),
    (errors.SchemaMismatchError, 409),
    (errors.StorageBusyError, 503),
    (errors.StorageFullError, 507),
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
    """The answer that tells an error."""
    if isinstance(error, HttpProblem):
        return problem(error.status, error.detail, error.headers)
    if isinstance(error, HTTPException):  # the application's own rules may raise the framework's
        return problem(error.status_code, str(error.detail), error.headers or {})
    for kind, status in _STATUS:
        if isinstance(error, kind):
            return problem(status, shown(type(error).__name__, str(error)), _retry(error, status))
    retry_after_s: Any = getattr(error, "retry_after_s", None)
    if isinstance(retry_after_s, int | float) and isinstance(error, errors.ActorGraphError):
        return problem(429, str(error), {"Retry-After": str(max(1, round(retry_after_s)))})
    return problem(500, "internal error", {})


def shown(error: str, text: str) -> str:
    """The text of an error as clients are told it.

    What a storage says may quote its place, or rows of others that were in the same batch.

    Args:
        error: its type's name.
    """
    return _OF_THE_STORAGE.get(error, text)


def shown_reason(reason: str) -> str:
    """The reason of a run's end, `type: text`, as clients are told it."""
    error, _, _ = reason.partition(":")
    return f"{error}: {_OF_THE_STORAGE[error]}" if error in _OF_THE_STORAGE else reason


_FAILED = "the storage failed; the server's log says why"
_OF_THE_STORAGE = {
    "StorageError": _FAILED,
    "DamagedRowError": "a stored row is damaged; the server's log says which",
    "StorageBusyError": "the storage is busy; come again in a moment",
    "StorageFullError": "the storage has no space left",
    "SaverBrokenError": _FAILED,
    "SaverClosedError": "the storage is closed",
}


def _retry(error: Exception, status: int) -> dict[str, str]:
    """A busy storage is so for a moment; a server that stops is there again a little later."""
    seconds = RESTART_S if isinstance(error, errors.SystemClosedError) else 1
    return {"Retry-After": str(seconds)} if status == 503 else {}


def problem(status: int, detail: str, headers: Mapping[str, str]) -> Response:
    """An answer with `{"detail": ...}`."""
    return Response(dumps({"detail": detail}), status, dict(headers), "application/json")
