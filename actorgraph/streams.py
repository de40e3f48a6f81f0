"""Streams of a run's events: their readers, transformers, and what nodes write to them.

The home of LangGraph's `langgraph.stream`. Nothing is defined here.
"""

from actorgraph.api.streams.events import ProtocolEvent, StreamChannel, StreamTransformer
from actorgraph.api.streams.message_streams import (
    AsyncMessageStream,
    MessagesTransformer,
    MessageStream,
    push_message,
)
from actorgraph.api.streams.projections import (
    CheckpointsTransformer,
    CustomTransformer,
    DebugTransformer,
    LifecyclePayload,
    LifecycleTransformer,
    SubgraphStatus,
    TasksTransformer,
    UpdatesTransformer,
    ValuesTransformer,
)
from actorgraph.api.streams.run_stream import (
    AsyncGraphRunStream,
    AsyncSubgraphRunStream,
    GraphRunStream,
    SubgraphRunStream,
    SubgraphTransformer,
)
from actorgraph.api.streams.stream import ChunkStream
from actorgraph.runtime.task.messages import get_message_writer
from actorgraph.runtime.task.scope import get_stream_writer

__all__ = [
    "AsyncGraphRunStream",
    "AsyncMessageStream",
    "AsyncSubgraphRunStream",
    "CheckpointsTransformer",
    "ChunkStream",
    "CustomTransformer",
    "DebugTransformer",
    "GraphRunStream",
    "LifecyclePayload",
    "LifecycleTransformer",
    "MessageStream",
    "MessagesTransformer",
    "ProtocolEvent",
    "StreamChannel",
    "StreamTransformer",
    "SubgraphRunStream",
    "SubgraphStatus",
    "SubgraphTransformer",
    "TasksTransformer",
    "UpdatesTransformer",
    "ValuesTransformer",
    "get_message_writer",
    "get_stream_writer",
    "push_message",
]
