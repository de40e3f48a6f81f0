"""Policies of nodes and of runs: retry, timeout, cache, tracing; durability, limits, streams.

The names and defaults are LangGraph's where it has them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any, Generic, Literal, NamedTuple, TypeVar, get_args

import msgspec

from actorgraph.errors import GraphBuildError
from actorgraph.values.constants import DEFAULT_NESTING_LIMIT, DEFAULT_RECURSION_LIMIT
from actorgraph.values.durations import seconds_of
from actorgraph.values.passing_errors import may_pass

RetryOn = type[Exception] | Sequence[type[Exception]] | Callable[[Exception], bool]
KeyFuncT = TypeVar("KeyFuncT", bound=Callable[..., str | bytes])


def default_retry_on(error: Exception) -> bool:
    """Whether another attempt may help: the default of `RetryPolicy.retry_on`.

    Yes for errors of the network, time limits, a node's timeout, and answers that mean "try
    again": HTTP 408, 425, 429 and 5xx, their likes of gRPC, AWS and databases. No for a wrong
    request (any other 4xx), a certificate that is refused, mistakes in the program
    (`ValueError`, `TypeError`, ...), other refusals of the OS and a failed save. Yes for errors
    of unknown kinds. A group of errors may be retried if each of them may.
    """
    return may_pass(error)


class RetryPolicy(NamedTuple):
    """Rules for calling a node again after it has raised, and how long to wait before that.

    The wait before attempt n + 1 is `initial_interval * backoff_factor ** (n - 1)`, at most
    `max_interval`, plus up to one second with `jitter`. All in seconds. If the error is a response
    with a `Retry-After`, the wait is at least that, also beyond `max_interval`; a wait of more than
    an hour is not taken, and a run with a deadline that would pass meanwhile fails at once.

    Attributes:
        initial_interval: default 0.5.
        backoff_factor: default 2.
        max_interval: default 128; the jitter may exceed it.
        max_attempts: calls at most, the first one included. Default 3.
        jitter: add a random part of a second, so that many runs don't retry at once. Default True.
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
    """Time limits of one attempt of an async node. A number or a timedelta means `run_timeout`.

    Attributes:
        run_timeout: seconds, or a timedelta, from the start of the attempt to its end.
        idle_timeout: seconds, or a timedelta, without a sign of progress.
        refresh_on: the signs of progress. "auto" (default): chunks written to a stream, subgraphs
            and tasks that it runs, LangChain callbacks and `heartbeat()`; "heartbeat": only that.
    """

    run_timeout: float | timedelta | None = None
    idle_timeout: float | timedelta | None = None
    refresh_on: Literal["auto", "heartbeat"] = "auto"

    @classmethod
    def coerce(cls, value: "float | timedelta | TimeoutPolicy | None") -> "TimeoutPolicy | None":
        """Make a policy in seconds of a number, a timedelta or a policy; None if it has no limit.

        Raises:
            GraphBuildError: a limit is not a positive number, or `refresh_on` is unknown.
        """
        if value is None:
            return None
        policy = value if isinstance(value, TimeoutPolicy) else cls(run_timeout=value)
        if policy.refresh_on not in ("auto", "heartbeat"):
            raise GraphBuildError(
                f"Unknown refresh_on {policy.refresh_on!r}", do='use "auto" or "heartbeat"'
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
    found = seconds_of(value)
    if found is None:
        raise GraphBuildError(
            f"{name} must be greater than 0, got {value!r}",
            do="use a positive number of seconds or a timedelta, at most a hundred years",
        )
    return found


@dataclass(frozen=True)  # no slots: CachePolicy[F](...) sets an attribute
class CachePolicy(Generic[KeyFuncT]):
    """Reuse a node's result when the same input comes again.

    The key holds the node's other reads too: of the run's context, of its `configurable` without
    the ids of the run, and of those ids where the node asks for them. A result for which it has
    read a store is not kept, with a warning.

    Attributes:
        key_func: makes the key of an input, text or bytes; it gets the node's input, and may read
            the context, the config or the store: then it decides what of them counts. Default:
            the input itself, as it would be stored.
        ttl: seconds until a result expires; None (default) for never.
        name: nodes whose policies have the same name share their results, across graphs and
            processes. Default: a node shares with those of the same graph, name and code; with
            none at all if its function holds objects other than data (a client, a model).
    """

    key_func: KeyFuncT | None = None
    ttl: int | None = None
    name: str = ""


class Durability(StrEnum):
    """The time by which a superstep must be durable.

    SYNC: before the next superstep starts. ASYNC: before the run returns. EXIT: once, when
    the run leaves.
    """

    SYNC = "sync"
    ASYNC = "async"
    EXIT = "exit"


DurabilityMode = Literal["sync", "async", "exit"]
StreamMode = Literal[
    "values", "updates", "messages", "custom", "checkpoints", "tasks", "debug", "tools"
]
STREAM_MODES: tuple[StreamMode, ...] = get_args(StreamMode)
All = Literal["*"]


class RunPolicy(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The settings of one run.

    Attributes:
        durability: see `Durability`.
        recursion_limit: node supersteps that the run may take, START's not counted.
        node_visit_limit: supersteps in which one node may run; None for no limit of its own.
        nesting_limit: levels of subgraphs.
        step_timeout_s: seconds that one superstep may take; None for no limit.
        max_concurrency: tasks that may run at once; None for no limit.
        max_unsaved_steps: in async mode, supersteps that may be done but not yet durable.
        interrupt_before: names of nodes to pause before; "*" for every node.
        interrupt_after: names of nodes to pause after; "*" for every node.
        modes: the stream modes that have readers.
        stored_stream: whether the chunks are stored as the run's events.
        output_keys: the keys that streams show; None for the graph's.
        bare: whether streams show the value of the one output key without the key.
        tags: the caller's.
        strict_resume: an answer to an unknown or answered question is an error, also when other
            answers of the same resume match.
        metadata: stored with the run's checkpoints.
    """

    durability: Durability = Durability.SYNC
    recursion_limit: int = DEFAULT_RECURSION_LIMIT
    node_visit_limit: int | None = None
    nesting_limit: int = DEFAULT_NESTING_LIMIT
    step_timeout_s: float | None = None
    max_concurrency: int | None = None
    max_unsaved_steps: int = 16
    interrupt_before: tuple[str, ...] = ()
    interrupt_after: tuple[str, ...] = ()
    modes: frozenset[str] = frozenset()
    stored_stream: bool = False
    output_keys: tuple[str, ...] | None = None
    bare: bool = False
    tags: tuple[str, ...] = ()
    strict_resume: bool = False
    metadata: dict[str, Any] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class TracePolicy:
    """The values to record of a node's calls. It never changes the node's inputs and outputs.

    The spans that this library makes hold no values. The policy is kept as `NodePlan.trace`, for
    an exporter that records them; the run and its streams show everything. It can't hide secrets:
    if a function raises, the real value is recorded.

    Attributes:
        process_inputs: makes the recorded input of the real one; None records the real one.
        process_outputs: the same for outputs.
    """

    process_inputs: Callable[[Any], Any] | None = None
    process_outputs: Callable[[Any], Any] | None = None

    def recorded_input(self, value: Any) -> Any:
        """Make the value to record of an input."""
        return _made(self.process_inputs, value)

    def recorded_output(self, value: Any) -> Any:
        """Make the value to record of an output."""
        return _made(self.process_outputs, value)


def omit_payload(value: Any) -> dict[str, Any]:
    """Record nothing of a value: for `TracePolicy(process_inputs=omit_payload)`."""
    del value
    return {}


def _made(process: Callable[[Any], Any] | None, value: Any) -> Any:
    if process is None:
        return value
    try:
        return process(value)
    except Exception:  # noqa: BLE001 - a user's function, which must not break the traced run
        return value
