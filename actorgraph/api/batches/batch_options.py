"""The arguments of `ActorSystem.map` and `amap_threads`, checked before anything runs."""

from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Mapping, Sequence, Sized
from typing import Any, Literal, TypeVar, cast

import msgspec

from actorgraph.api.config import THREAD_ID_BYTES_MAX, is_thread_id
from actorgraph.api.options import CallOptions, unknown_argument
from actorgraph.errors import InvalidConfigError, did_you_mean
from actorgraph.plan.annotations import declared_names
from actorgraph.rules.thread_batches import (
    BatchCounts,
    BatchRules,
    WhenChanged,
    WhenFailed,
    double_key,
)
from actorgraph.runtime.sizes import MB
from actorgraph.values.commands import Interrupt
from actorgraph.values.policies import StreamMode

InputT = TypeVar("InputT")
Inputs = Iterable[InputT] | AsyncIterable[InputT]
KeyOf = Callable[[Any], "str | int"]
Answer = Callable[[str, Interrupt], Any | Awaitable[Any]]
AHEAD_BYTES = 16 * MB
ReadChunk = Callable[[str, StreamMode, Any], None]
WatchCounts = Callable[[BatchCounts], None]


class BatchOptions(CallOptions, total=False):
    """Options of a batch: those of each thread's runs (`CallOptions`), and these.

    Attributes:
        config: of each run, such as `{"max_concurrency": 8}` or metadata; without a thread.
        name: of the batch, the beginning of its threads' ids. Default the graph's name.
        concurrency: the most threads that run at once. Default 64.
        ahead: inputs that are read, and results that wait to be taken, besides the running
            threads. Default 64. A consumer that is slow holds the batch back by this.
        ahead_bytes: approximate bytes of the results that wait to be taken, above which no thread
            begins. Default 16 MB. The threads that run then still add theirs.
        failed: "skip" (default) gives the stored error of a thread that failed in an earlier run
            of the batch; "retry" runs its unfinished tasks again.
        changed: "refuse" (default) makes an input a failure (`BatchInputError`) if its thread
            began with another one, or by something else than this batch; "keep" goes on with it.
        errors: "collect" (default) gives failures as results; "raise" ends the batch at the first
            one, with its error.
        ordered: give results in the order of the inputs. Default False: as threads end.
        answer: a function, plain or async, of a key and an `Interrupt`; returns the answer, or
            None to leave the thread waiting.
        on_chunk: a function of a key, a stream mode and a chunk, called for each chunk of the
            threads' runs. With sync durability what a chunk of "updates" reports is stored.
        stream_mode: the modes for `on_chunk`; default "updates".
        total: the number of inputs, for the progress; default their `len`, if they have one.
    """

    config: Mapping[str, Any] | None
    name: str | None
    concurrency: int
    ahead: int
    ahead_bytes: int
    failed: WhenFailed
    changed: WhenChanged
    errors: Literal["collect", "raise"]
    ordered: bool
    answer: Answer | None
    on_chunk: ReadChunk | None
    stream_mode: StreamMode | Sequence[StreamMode]
    total: int | None


class BatchPlan(msgspec.Struct, frozen=True):
    """The checked arguments of a batch.

    Attributes:
        name: of the batch.
        inputs: read once.
        key: of an input; None for its place.
        rules: for the decisions about threads.
        concurrency: the most threads that run at once.
        ahead: inputs and results beyond those.
        ahead_bytes: approximate bytes of results that wait, above which no thread begins.
        raises: whether the first failure ends the batch.
        ordered: whether results keep the order of the inputs.
        answer: answers questions, if any.
        progress: gets the counts; True for a bar.
        total: the number of inputs, if known.
    """

    name: str
    inputs: Inputs[Any]
    key: KeyOf | None
    rules: BatchRules
    concurrency: int
    ahead: int
    ahead_bytes: int
    raises: bool
    ordered: bool
    answer: Answer | None
    progress: bool | WatchCounts
    total: int | None

    def key_of(self, place: int, given: Any) -> str:
        """Return the key of an input.

        Raises:
            InvalidConfigError: it is neither text nor an integer, or makes no thread id.
            Exception: the program's function raised it.
        """
        try:
            key = place if self.key is None else self.key(given)
        except (StopIteration, StopAsyncIteration) as error:  # it would look like the last input
            msg = f"key raised {type(error).__name__} for input {place} of batch {self.name!r}"
            raise RuntimeError(msg) from error
        if not isinstance(key, str | int) or isinstance(key, bool) or key == "":
            raise InvalidConfigError(
                f"key must return text or an integer, got {key!r} for input {place} of batch "
                f"{self.name!r}",
                do="return e.g. the input's id, the same in every run",
            )
        if not is_thread_id(f"{self.name}:{key}"):
            raise InvalidConfigError(
                f"the key {str(key)[:40]!r} of input {place} of batch {self.name!r} makes no "
                f"thread id: with the batch's name it must have at most {THREAD_ID_BYTES_MAX} "
                "bytes, and no control characters",
                do="return a short printable key, such as the input's id",
            )
        return str(key)


_CALL = frozenset(declared_names(CallOptions))
_OWN = (frozenset(declared_names(BatchOptions)) - _CALL) | {"progress"}
_BREAKPOINTS = ("interrupt_before", "interrupt_after")


def batch_plan(
    method: str,
    inputs: Inputs[Any],
    key: KeyOf | None,
    options: Mapping[str, Any],
    *,
    name: str,
    more: Sequence[str] = (),
) -> tuple[BatchPlan, dict[str, Any]]:
    """Check the arguments of a batch.

    Args:
        method: the method's name, for errors.
        inputs: iterable or async iterable.
        key: see `BatchPlan`.
        options: see `BatchOptions`.
        name: the default one.
        more: other options that the method has.
    Returns: the plan, and the options of each run.
    Raises:
        InvalidConfigError: an argument is unknown or out of range, or inputs in a list have a key
            twice.
    """
    known = (*_OWN, *_CALL, *more)
    for option in options:
        if option not in known:
            raise unknown_argument(method, option, known)
    own = {option: value for option, value in options.items() if option in _OWN}
    _check_choices(method, own)
    _check_calls(method, inputs, key, own)
    plan = _plan_of(inputs, key, own, name)
    if isinstance(inputs, list | tuple):
        _refuse_double_keys(plan, cast("Sequence[Any]", inputs))
    return plan, {option: value for option, value in options.items() if option not in _OWN}


def _plan_of(
    inputs: Inputs[Any], key: KeyOf | None, own: Mapping[str, Any], name: str
) -> BatchPlan:
    total = own.get("total")
    if total is None and isinstance(inputs, Sized):
        total = len(inputs)
    answer = own.get("answer")
    return BatchPlan(
        name=own.get("name") or name,
        inputs=inputs,
        key=key,
        rules=BatchRules(
            own.get("failed", "skip"), own.get("changed", "refuse"), answer is not None
        ),
        concurrency=own.get("concurrency", 64),
        ahead=own.get("ahead", 64),
        ahead_bytes=own.get("ahead_bytes", AHEAD_BYTES),
        raises=own.get("errors", "collect") == "raise",
        ordered=bool(own.get("ordered", False)),
        answer=answer,
        progress=own.get("progress", False),
        total=total,
    )


def refuse_breakpoints(method: str, plan: Any, call: Mapping[str, Any]) -> None:
    """Refuse a graph or a call with breakpoints.

    A thread that waits at one looks like a thread that was cut off there: the next run of the
    batch would pass it.

    Raises:
        InvalidConfigError: it has one.
    """
    for option in _BREAKPOINTS:
        given = call.get(option)
        if given or (given is None and getattr(plan, option)):
            raise InvalidConfigError(
                f"{method}() takes no {option}: running the batch again would pass the breakpoint",
                do="call interrupt() in the node, or use ainvoke() for a graph with breakpoints",
            )
    if call.get("replay", "execute") != "execute":
        raise InvalidConfigError(
            f"{method}() has no replay", do="use ainvoke(None, config, replay=...) for one thread"
        )


def double_key_error(name: str, found: tuple[str, int, int]) -> InvalidConfigError:
    """Make the error for a key that two inputs have."""
    key, first, second = found
    return InvalidConfigError(
        f"key {key!r} of batch {name!r} is used twice, by inputs {first} and {second}",
        do="let key= return something that differs for each input",
    )


def _refuse_double_keys(plan: BatchPlan, inputs: Sequence[Any]) -> None:
    found = double_key([plan.key_of(place, one) for place, one in enumerate(inputs)])
    if found is not None:
        raise double_key_error(plan.name, found)


_CHOICES = {
    "failed": ("skip", "retry"),
    "changed": ("refuse", "keep"),
    "errors": ("collect", "raise"),
}


def _check_choices(method: str, own: Mapping[str, Any]) -> None:
    for option, choices in _CHOICES.items():
        given = own.get(option, choices[0])
        if given not in choices:
            raise InvalidConfigError(
                f"{method}() has no {option}={given!r}; expected one of {', '.join(choices)}",
                do=did_you_mean(str(given), choices),
            )
    numbers = {
        "concurrency": (own.get("concurrency", 64), 1),
        "ahead": (own.get("ahead", 64), 0),
        "ahead_bytes": (own.get("ahead_bytes", AHEAD_BYTES), 1),
        "total": (own.get("total") or 0, 0),
    }
    for option, (number, least) in numbers.items():
        if type(number) is not int or number < least:
            raise InvalidConfigError(
                f"{option} must be an integer >= {least}, got {number!r}",
                do="leave it out for the default",
            )


def _check_calls(method: str, inputs: Any, key: Any, own: Mapping[str, Any]) -> None:
    if isinstance(inputs, str | bytes | Mapping) or not isinstance(
        inputs, Iterable | AsyncIterable
    ):
        raise InvalidConfigError(
            f"{method}() takes an iterable of inputs, got {type(inputs).__name__}",
            do="pass a list or a generator with one input for each thread",
        )
    calls = {"key": key, "answer": own.get("answer"), "on_chunk": own.get("on_chunk")}
    for option, given in calls.items():
        if given is not None and not callable(given):
            raise InvalidConfigError(f"{option} must be a function, got {given!r}", do="pass one")
    progress = own.get("progress", False)
    if not isinstance(progress, bool) and not callable(progress):
        raise InvalidConfigError(
            f"progress must be True, False or a function, got {progress!r}",
            do="pass True for a bar in the terminal",
        )
    place = (own.get("config") or {}).get("configurable") or {}
    if "thread_id" in place or "thread_id" in (own.get("config") or {}):
        raise InvalidConfigError(
            f"{method}() makes the ids of its threads, so config must not have one",
            do="use name= and key=: a thread's id is 'name:key'",
        )
