"""Rules for LangGraph's channels in annotations, in programs that use both libraries.

A channel of LangGraph's own becomes the rule of the same name here. An object of a program's own
subclass is kept, and updated behind the interface of `BaseChannel`. LangGraph is never imported
here: while its module isn't loaded, no annotation can have a channel of its classes.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, Self

from actorgraph.bridges.langgraph_values import langgraph_module
from actorgraph.channels.barrier import (
    LastValueAfterFinish,
    NamedBarrierValue,
    NamedBarrierValueAfterFinish,
)
from actorgraph.channels.base import Channel
from actorgraph.channels.last_value import AnyValue, EphemeralValue, LastValue, UntrackedValue
from actorgraph.channels.reducer import BinaryOperatorAggregate, DeltaChannel
from actorgraph.channels.stateful import MISSING, BaseChannel, Stateful
from actorgraph.channels.topic import Topic
from actorgraph.errors import EmptyChannelError, InvalidUpdateError, SchemaError
from actorgraph.messages import add_messages
from actorgraph.messages.add_messages import messages_delta_reducer
from actorgraph.plan.schema import IsLastStepManager, RemainingStepsManager

_BASE = "langgraph.channels.base"
_MESSAGES = "langgraph.graph.message"


def adapt_channel(candidate: Any, typ: Any = None, key: str = "") -> Channel[Any] | None:
    """Make the rule of an annotation that is a channel of LangGraph's, or a class of them.

    Args:
        candidate: any part of an annotation.
        typ: the annotated type; None for none.
        key: the channel's name.
    Returns: the rule; None for anything else.
    Raises:
        SchemaError: the class can't be called with a type alone.
    """
    base = getattr(langgraph_module(_BASE), "BaseChannel", None)
    if base is None:
        return None
    if isinstance(candidate, type) and issubclass(candidate, base):
        candidate = _made(candidate, typ, key)
    if not isinstance(candidate, base):
        return None
    theirs: Any = candidate
    make = _MAKERS.get(type(theirs).__name__) if _is_langgraph(type(theirs)) else None
    if make is None:
        return Stateful(AdaptedChannel(theirs), key)
    rule = make(theirs)
    return rule if typ is None else rule.annotated(typ)


def adapt_reducer(function: Any) -> Any:
    """Return this library's form of LangGraph's reducers of messages; others as they are.

    The ids that these give to messages are the same whenever a write is folded.
    """
    module = langgraph_module(_MESSAGES)
    if module is not None:
        for name, ours in _REDUCERS.items():
            if function is getattr(module, name, None):
                return ours
    return function


class AdaptedChannel(BaseChannel[Any, Any, Any]):
    """A program's own subclass of LangGraph's BaseChannel.

    Args:
        channel: the object; copies of it are updated.
    """

    def __init__(self, channel: Any) -> None:
        self._channel = channel
        super().__init__(channel.typ, channel.key)

    def from_checkpoint(self, checkpoint: Any) -> Self:
        """Make a channel with a stored value; with MISSING, an empty one."""
        stored = _their_missing() if checkpoint is MISSING else checkpoint
        return type(self)(self._channel.from_checkpoint(stored))

    def update(self, values: Sequence[Any]) -> bool:
        """Update the channel.

        Raises:
            InvalidUpdateError: it raised LangGraph's.
        """
        self._channel.key = self.key
        with _our_errors():
            return bool(self._channel.update(values))

    def get(self) -> Any:
        """Return the channel's value.

        Raises:
            EmptyChannelError: it has none.
        """
        with _our_errors():
            return self._channel.get()

    def checkpoint(self) -> Any:
        """Return the value to store; MISSING for none."""
        stored = self._channel.checkpoint()
        return MISSING if stored is _their_missing() else stored

    def copy(self) -> Self:
        """Copy the channel."""
        return type(self)(self._channel.copy())

    def is_available(self) -> bool:
        """Whether there is a value to read."""
        return bool(self._channel.is_available())

    def consume(self) -> bool:
        """Handle the run of a node that the channel triggers."""
        return bool(self._channel.consume())

    def finish(self) -> bool:
        """Handle the end of the run."""
        return bool(self._channel.finish())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AdaptedChannel) and self._channel == other._channel

    __hash__ = None  # type: ignore[assignment]


def adapt_manager(mark: type) -> type:
    """Return the rule of the same name for a managed value of LangGraph's; others unchanged.

    Raises:
        SchemaError: it is a program's own managed value, which reads LangGraph's scratchpad.
    """
    theirs = getattr(langgraph_module("langgraph.managed.base"), "ManagedValue", None)
    if theirs is None or not issubclass(mark, theirs):
        return mark
    for ours in (IsLastStepManager, RemainingStepsManager):
        if mark.__name__ == ours.__name__ and mark.__module__.startswith("langgraph.managed."):
            return ours
    raise SchemaError(
        f"{mark.__name__} is a managed value of LangGraph's interface, which reads its scratchpad",
        do="use IsLastStep or RemainingSteps, or compute the value in the nodes",
    )


@contextmanager
def _our_errors() -> Generator[None]:
    errors = langgraph_module("langgraph.errors")
    try:
        yield
    except errors.EmptyChannelError as error:
        raise EmptyChannelError("the channel is empty", do="write to it first") from error
    except errors.InvalidUpdateError as error:
        raise InvalidUpdateError(
            str(error), do="write values that the channel can take together"
        ) from error


def _made(kind: type, typ: Any, key: str) -> Any:
    try:
        return kind(typ)
    except TypeError as error:
        raise SchemaError(
            f"state key {key!r} has the channel class {kind.__name__}, which takes more than the "
            f"type: {error}",
            do=f"annotate the key with an object, such as {kind.__name__}(...)",
        ) from error


def _is_langgraph(kind: type) -> bool:
    return kind.__module__.startswith("langgraph.channels.")


def _their_missing() -> Any:
    return langgraph_module("langgraph._internal._typing").MISSING


_MAKERS: dict[str, Callable[[Any], Channel[Any]]] = {
    "AnyValue": lambda its: AnyValue(its.typ),
    "BinaryOperatorAggregate": lambda its: BinaryOperatorAggregate(
        its.typ, adapt_reducer(its.operator)
    ),
    "DeltaChannel": lambda its: DeltaChannel(
        adapt_reducer(its.reducer), its.typ, snapshot_frequency=its.snapshot_frequency
    ),
    "EphemeralValue": lambda its: EphemeralValue(its.typ, its.guard),
    "LastValue": lambda its: LastValue(its.typ),
    "LastValueAfterFinish": lambda its: LastValueAfterFinish(its.typ),
    "NamedBarrierValue": lambda its: NamedBarrierValue(its.typ, its.names),
    "NamedBarrierValueAfterFinish": lambda its: NamedBarrierValueAfterFinish(its.typ, its.names),
    "Topic": lambda its: Topic(its.typ, its.accumulate),
    "UntrackedValue": lambda its: UntrackedValue(its.typ, its.guard),
}
"""Name of LangGraph's class -> the function that makes the rule of one of its objects."""

_REDUCERS: dict[str, Any] = {
    "add_messages": add_messages,
    "_messages_delta_reducer": messages_delta_reducer,
}
"""Name of LangGraph's reducer -> the reducer here."""
