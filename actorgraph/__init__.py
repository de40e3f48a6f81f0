"""actorgraph: durable graphs over shared state, thousands of runs in one process.

Declare a `StateGraph`, `compile` it with a saver, then `ainvoke` or `astream` threads of it, on
asyncio or trio. The names are LangGraph's where LangGraph has the thing.
"""

from actorgraph import channels
from actorgraph.api.graph import CompiledStateGraph
from actorgraph.api.savers import AsyncSqliteSaver, InMemorySaver, MemorySaver, SqliteSaver
from actorgraph.api.state_graph import StateGraph
from actorgraph.codec import Codec
from actorgraph.errors import (
    ActorGraphError,
    ActorGraphWarning,
    AlreadyResumed,
    CheckpointError,
    ConflictError,
    EmptyInputError,
    GraphBuildError,
    GraphInterrupt,
    GraphRecursionError,
    InvalidConfigError,
    InvalidUpdateError,
    MissingNodeError,
    NodeCancelledError,
    NodeTimeoutError,
    RunningLoopError,
    SaverClosedError,
    SaverRequiredError,
    SerializationError,
    StorageError,
    SwallowedInterruptWarning,
    UnknownChannelWarning,
    UnknownInterruptError,
    UnknownTargetError,
    UnreachableNodeWarning,
)
from actorgraph.runtime.context import get_config, get_stream_writer, interrupt
from actorgraph.values.commands import Command, Interrupt, Send
from actorgraph.values.constants import END, START
from actorgraph.values.policies import Durability, StreamMode
from actorgraph.values.snapshot import PregelTask, StateSnapshot

__version__ = "0.1.0"

__all__ = [
    "END",
    "START",
    "ActorGraphError",
    "ActorGraphWarning",
    "AlreadyResumed",
    "AsyncSqliteSaver",
    "CheckpointError",
    "Codec",
    "Command",
    "CompiledStateGraph",
    "ConflictError",
    "Durability",
    "EmptyInputError",
    "GraphBuildError",
    "GraphInterrupt",
    "GraphRecursionError",
    "InMemorySaver",
    "Interrupt",
    "InvalidConfigError",
    "InvalidUpdateError",
    "MemorySaver",
    "MissingNodeError",
    "NodeCancelledError",
    "NodeTimeoutError",
    "PregelTask",
    "RunningLoopError",
    "SaverClosedError",
    "SaverRequiredError",
    "Send",
    "SerializationError",
    "SqliteSaver",
    "StateGraph",
    "StateSnapshot",
    "StorageError",
    "StreamMode",
    "SwallowedInterruptWarning",
    "UnknownChannelWarning",
    "UnknownInterruptError",
    "UnknownTargetError",
    "UnreachableNodeWarning",
    "channels",
    "get_config",
    "get_stream_writer",
    "interrupt",
]
