"""How the calls of one node are to be made: tried again, limited in time, remembered.

The names and defaults are LangGraph's.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from actorgraph.errors import CheckpointError, GraphBuildError

RetryOn = type[Exception] | Sequence[type[Exception]] | Callable[[Exception], bool]
MAX_S = 3_155_760_000.0
KeyFuncT = TypeVar("KeyFuncT", bound=Callable[..., str | bytes])

_NEVER = (
    *(ValueError, TypeError, ArithmeticError, ImportError, LookupError, NameError, SyntaxError),
    *(RuntimeError, ReferenceError, StopIteration, StopAsyncIteration, OSError),
    CheckpointError,
)
"""What the next attempt would meet again: mistakes in a program, and the local machine's no."""


def default_retry_on(error: Exception) -> bool:
    """Whether another attempt may help: `RetryPolicy.retry_on` where none is given.

    Yes for a `ConnectionError`, for the 5xx answers of httpx and requests, for a node's timeout
    and for any error that is not a mistake in the program (`ValueError`, `TypeError`, ...), an
    `OSError` or a failed save. A group of errors may be retried if each of them may.
    """
    if isinstance(error, ExceptionGroup):
        return all(default_retry_on(inner) for inner in error.exceptions)
    if isinstance(error, ConnectionError):
        return True
    answer = _http_answer(error)
    if answer is not None:
        status = getattr(answer[0], "status_code", None)
        return status is None or 500 <= status < 600
    return not isinstance(error, _NEVER)


def _http_answer(error: Exception) -> tuple[Any] | None:
    """The answer in an HTTP client's status error; None where the error is none."""
    for client, name in (("httpx", "HTTPStatusError"), ("requests", "HTTPError")):
        kind = getattr(sys.modules.get(client), name, None)  # not imported: can't be its error
        if kind is not None and isinstance(error, kind):
            return (getattr(error, "response", None),)
    return None


class RetryPolicy(NamedTuple):
    """When to call a node again after it has raised, and how long to wait before that.

    The wait before attempt n + 1 is `initial_interval * backoff_factor ** (n - 1)`, at most
    `max_interval`, plus up to one second with `jitter`. All in seconds.

    Attributes:
        initial_interval: default 0.5.
        backoff_factor: default 2.
        max_interval: default 128; the jitter may exceed it.
        max_attempts: calls at most, the first one included. Default 3.
        jitter: add a random part of a second, so that many runs don't return at once. Default yes.
        retry_on: a class of errors, several, or a function of the error. Default
            `default_retry_on`.
    """

    initial_interval: float = 0.5
    backoff_factor: float = 2.0
    max_interval: float = 128.0
    max_attempts: int = 3
    jitter: bool = True
    retry_on: RetryOn = default_retry_on


@dataclass(frozen=True, slots=True)
class TimeoutPolicy:
    """How long one attempt of an async node may take. A number or a timedelta means `run_timeout`.

    Attributes:
        run_timeout: seconds, or a timedelta, from the attempt's begin to its end.
        idle_timeout: the same without a sign of progress.
        refresh_on: what counts as progress. "auto" (default): chunks written to a stream, graphs
            and tasks that it runs, LangChain callbacks and `heartbeat()`; "heartbeat": only that.
    """

    run_timeout: float | timedelta | None = None
    idle_timeout: float | timedelta | None = None
    refresh_on: Literal["auto", "heartbeat"] = "auto"

    @classmethod
    def coerce(cls, value: "float | timedelta | TimeoutPolicy | None") -> "TimeoutPolicy | None":
        """The policy that a value stands for, in seconds; None where nothing is limited.

        Raises:
            GraphBuildError: a limit is no positive number, or `refresh_on` is neither word.
        """
        if value is None:
            return None
        policy = value if isinstance(value, TimeoutPolicy) else cls(run_timeout=value)
        if policy.refresh_on not in ("auto", "heartbeat"):
            raise GraphBuildError(
                f"refresh_on is {policy.refresh_on!r}", do='use "auto" or "heartbeat"'
            )
        run = _seconds("run_timeout", policy.run_timeout)
        idle = _seconds("idle_timeout", policy.idle_timeout)
        return None if run is None and idle is None else cls(run, idle, policy.refresh_on)

    @property
    def run_s(self) -> float | None:
        """`run_timeout` in seconds."""
        return _seconds("run_timeout", self.run_timeout)

    @property
    def idle_s(self) -> float | None:
        """`idle_timeout` in seconds."""
        return _seconds("idle_timeout", self.idle_timeout)


def _seconds(name: str, value: Any) -> float | None:
    if value is None:
        return None
    given = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not 0 < given <= MAX_S:
        raise GraphBuildError(
            f"{name} must be greater than 0, and is {value!r}",
            do="use a positive number of seconds or a timedelta, at most a hundred years",
        )
    return float(given)


@dataclass(frozen=True)  # no slots: CachePolicy[F](...) sets an attribute
class CachePolicy(Generic[KeyFuncT]):
    """What a node did for one input is taken for its result when the same input comes again.

    Attributes:
        key_func: makes the key of an input, text or bytes; it gets the node's input. Default: the
            input itself, as it would be stored.
        ttl: seconds for which a result counts; None (default) for ever.
        name: nodes whose policies have the same name share their results, across graphs and
            processes. Default: a node shares with those of the same graph, name and code; with
            none at all if its function holds objects (a client, a model) that are no data.
    """

    key_func: KeyFuncT | None = None
    ttl: int | None = None
    name: str = ""
