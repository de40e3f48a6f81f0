"""Channels: rules by which one cell of the state folds the writes of a superstep.

A channel here is a rule without a value. The value of every cell is in the run's state, which
passes it to the rule and stores the value that the rule returns. A program may write rules of its
own: subclasses of `Channel`, or of `BaseChannel`, which hold their value as LangGraph's do.
"""

from actorgraph.channels.barrier import (
    LastValueAfterFinish,
    NamedBarrierValue,
    NamedBarrierValueAfterFinish,
)
from actorgraph.channels.base import EMPTY, UNCHANGED, Channel
from actorgraph.channels.last_value import AnyValue, EphemeralValue, LastValue, UntrackedValue
from actorgraph.channels.reducer import BinaryOperatorAggregate, DeltaChannel
from actorgraph.channels.stateful import MISSING, BaseChannel
from actorgraph.channels.topic import Topic

__all__ = [
    "EMPTY",
    "MISSING",
    "UNCHANGED",
    "AnyValue",
    "BaseChannel",
    "BinaryOperatorAggregate",
    "Channel",
    "DeltaChannel",
    "EphemeralValue",
    "LastValue",
    "LastValueAfterFinish",
    "NamedBarrierValue",
    "NamedBarrierValueAfterFinish",
    "Topic",
    "UntrackedValue",
]
