"""actorgraph: durable graphs over shared state, thousands of runs in one process.

Declare a `StateGraph`, `compile` it with a saver, then call `ainvoke` or `astream` on threads, on
asyncio or trio. Names are the same as LangGraph's wherever it has the same concept.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from actorgraph import channels, messages
from actorgraph.api.graph import CompiledStateGraph
from actorgraph.api.later import LAZY_IMPORTS
from actorgraph.api.savers import InMemorySaver, MemorySaver
from actorgraph.api.state_graph import StateGraph
from actorgraph.codec import AesCipher, CipherProtocol, Codec, EncryptedSerializer
from actorgraph.codec.events import SerdeEvent, register_serde_event_listener
from actorgraph.errors import (
    ActorGraphError,
    ActorGraphWarning,
    AlreadyResumed,
    CacheWarning,
    CheckpointError,
    CompiledGraphWarning,
    ConflictError,
    EmptyChannelError,
    EmptyInputError,
    EncryptionError,
    ErrorCode,
    FormatVersionError,
    GraphBubbleUp,
    GraphBuildError,
    GraphDrained,
    GraphInterrupt,
    GraphRecursionError,
    InvalidConfigError,
    InvalidContextError,
    InvalidResumeError,
    InvalidUpdateError,
    LeaseLostError,
    LostErrorWarning,
    MissingExtraError,
    MissingNodeError,
    NodeCancelledError,
    NodeError,
    NodeTimeoutError,
    ParentCommand,
    ResultTimeoutError,
    RunCancelledError,
    RunFailedError,
    RunningLoopError,
    RunNotFoundError,
    SaverClosedError,
    SaverRequiredError,
    SchemaMismatchError,
    SerializationError,
    SlowReaderError,
    StepTimeoutError,
    StorageError,
    StoreRequiredError,
    SwallowedInterruptWarning,
    SystemBusyError,
    SystemClosedError,
    ThreadBusyError,
    UnknownChannelWarning,
    UnknownInterruptError,
    UnknownTargetError,
    UnknownTypeError,
    UnreachableNodeWarning,
)
from actorgraph.messages import REMOVE_ALL_MESSAGES, MessagesState, RemoveMessage, add_messages
from actorgraph.plan.managed import IsLastStep, RemainingSteps
from actorgraph.plan.raw import ChannelWriteEntry
from actorgraph.runtime.context import get_config, get_stream_writer
from actorgraph.runtime.futures import TaskFuture
from actorgraph.runtime.handle import Runtime
from actorgraph.runtime.injection import get_runtime, get_store
from actorgraph.runtime.lifecycle import (
    GraphCallbackHandler,
    GraphInterruptEvent,
    GraphLifecycleEvent,
    GraphResumeEvent,
)
from actorgraph.runtime.messages import get_message_writer
from actorgraph.runtime.questions import interrupt
from actorgraph.values.commands import Command, Interrupt, Send, StateUpdate
from actorgraph.values.constants import END, START, TAG_HIDDEN, TAG_NOSTREAM
from actorgraph.values.control import RunControl
from actorgraph.values.execution import ExecutionInfo, ServerInfo
from actorgraph.values.invalid_resumes import is_invalid_resume
from actorgraph.values.migrations import Migration
from actorgraph.values.node_interrupt import NodeInterrupt
from actorgraph.values.node_policies import (
    CachePolicy,
    RetryPolicy,
    TimeoutPolicy,
    default_retry_on,
)
from actorgraph.values.output import GraphOutput
from actorgraph.values.overwrite import Overwrite
from actorgraph.values.policies import All, Durability, StreamMode
from actorgraph.values.snapshot import PregelTask, StateSnapshot
from actorgraph.values.streams import (
    CheckpointPayload,
    CheckpointStreamPart,
    CustomStreamPart,
    DebugPayload,
    DebugStreamPart,
    MessagesStreamPart,
    StreamPart,
    StreamWriter,
    TaskPayload,
    TaskResultPayload,
    TasksStreamPart,
    UpdatesStreamPart,
    ValuesStreamPart,
)
from actorgraph.values.targets import Latest, ResumeTarget
from actorgraph.values.tracing import TracePolicy, omit_payload

if TYPE_CHECKING:
    from actorgraph.api.drawable import DrawableGraph
    from actorgraph.api.events.channel import StreamChannel
    from actorgraph.api.events.models import AsyncMessageStream, MessagesTransformer, MessageStream
    from actorgraph.api.events.modes import (
        CheckpointsTransformer,
        CustomTransformer,
        DebugTransformer,
        TasksTransformer,
        UpdatesTransformer,
        ValuesTransformer,
    )
    from actorgraph.api.events.nested import LifecyclePayload, LifecycleTransformer, SubgraphStatus
    from actorgraph.api.events.protocol import ProtocolEvent, StreamTransformer
    from actorgraph.api.events.readers import (
        AsyncGraphRunStream,
        AsyncSubgraphRunStream,
        GraphRunStream,
        SubgraphRunStream,
    )
    from actorgraph.api.events.subgraphs import SubgraphTransformer
    from actorgraph.api.foreign import ForeignSaver
    from actorgraph.api.functional.entrypoints import entrypoint
    from actorgraph.api.functional.tasks import TaskFunction, task
    from actorgraph.api.jsonl_saver import JsonlSaver
    from actorgraph.api.node_builder import NodeBuilder
    from actorgraph.api.operations.audit import AuditedSaver
    from actorgraph.api.operations.audit_log import AuditHead, AuditLog, verify_audit_log
    from actorgraph.api.operations.guard import GuardedSaver
    from actorgraph.api.operations.limits import LimitedSaver
    from actorgraph.api.operations.metrics import MeteredSaver, SaverCall
    from actorgraph.api.operations.principals import acting_as, current_principal
    from actorgraph.api.operations.retries import RetryingSaver
    from actorgraph.api.postgres_saver import AsyncPostgresSaver, PostgresSaver
    from actorgraph.api.pregel import Pregel
    from actorgraph.api.push import push_message
    from actorgraph.api.runs import Run
    from actorgraph.api.saver_base import (
        BaseCheckpointSaver,
        create_checkpoint,
        empty_checkpoint,
        get_checkpoint_id,
        uuid6,
    )
    from actorgraph.api.simple_saver import SimpleCheckpoint, SimpleSaver
    from actorgraph.api.sqlite_saver import AsyncSqliteSaver, SqliteSaver
    from actorgraph.api.system import ActorSystem
    from actorgraph.api.thread_ids import new_thread_id, parse_thread_id, thread_id_for
    from actorgraph.caches import BaseCache, FullKey, InMemoryCache, SqliteCache
    from actorgraph.codec.serializers import SerializerProtocol
    from actorgraph.errors import ForeignSaverWarning, NotSupportedError
    from actorgraph.ports import Checkpointer
    from actorgraph.runtime.steps import astep, get_idempotency_key, step
    from actorgraph.values.checkpoint import (
        ChannelVersions,
        Checkpoint,
        CheckpointMetadata,
        CheckpointTuple,
    )
    from actorgraph.values.listing import CheckpointSummary
    from actorgraph.values.sources import CheckpointConfig, CheckpointSource
    from actorgraph.values.systems import RunEvent

__version__ = "0.1.0"

__all__ = [
    "END",
    "REMOVE_ALL_MESSAGES",
    "START",
    "TAG_HIDDEN",
    "TAG_NOSTREAM",
    "ActorGraphError",
    "ActorGraphWarning",
    "ActorSystem",
    "AesCipher",
    "All",
    "AlreadyResumed",
    "AsyncGraphRunStream",
    "AsyncMessageStream",
    "AsyncPostgresSaver",
    "AsyncSqliteSaver",
    "AsyncSubgraphRunStream",
    "AuditHead",
    "AuditLog",
    "AuditedSaver",
    "BaseCache",
    "BaseCheckpointSaver",
    "CachePolicy",
    "CacheWarning",
    "ChannelVersions",
    "ChannelWriteEntry",
    "Checkpoint",
    "CheckpointConfig",
    "CheckpointError",
    "CheckpointMetadata",
    "CheckpointPayload",
    "CheckpointSource",
    "CheckpointStreamPart",
    "CheckpointSummary",
    "CheckpointTuple",
    "Checkpointer",
    "CheckpointsTransformer",
    "CipherProtocol",
    "Codec",
    "Command",
    "CompiledGraphWarning",
    "CompiledStateGraph",
    "ConflictError",
    "CustomStreamPart",
    "CustomTransformer",
    "DebugPayload",
    "DebugStreamPart",
    "DebugTransformer",
    "DrawableGraph",
    "Durability",
    "EmptyChannelError",
    "EmptyInputError",
    "EncryptedSerializer",
    "EncryptionError",
    "ErrorCode",
    "ExecutionInfo",
    "ForeignSaver",
    "ForeignSaverWarning",
    "FormatVersionError",
    "FullKey",
    "GraphBubbleUp",
    "GraphBuildError",
    "GraphCallbackHandler",
    "GraphDrained",
    "GraphInterrupt",
    "GraphInterruptEvent",
    "GraphLifecycleEvent",
    "GraphOutput",
    "GraphRecursionError",
    "GraphResumeEvent",
    "GraphRunStream",
    "GuardedSaver",
    "InMemoryCache",
    "InMemorySaver",
    "Interrupt",
    "InvalidConfigError",
    "InvalidContextError",
    "InvalidResumeError",
    "InvalidUpdateError",
    "IsLastStep",
    "JsonlSaver",
    "Latest",
    "LeaseLostError",
    "LifecyclePayload",
    "LifecycleTransformer",
    "LimitedSaver",
    "LostErrorWarning",
    "MemorySaver",
    "MessageStream",
    "MessagesState",
    "MessagesStreamPart",
    "MessagesTransformer",
    "MeteredSaver",
    "Migration",
    "MissingExtraError",
    "MissingNodeError",
    "NodeBuilder",
    "NodeCancelledError",
    "NodeError",
    "NodeInterrupt",
    "NodeTimeoutError",
    "NotSupportedError",
    "Overwrite",
    "ParentCommand",
    "PostgresSaver",
    "Pregel",
    "PregelTask",
    "ProtocolEvent",
    "RemainingSteps",
    "RemoveMessage",
    "ResultTimeoutError",
    "ResumeTarget",
    "RetryPolicy",
    "RetryingSaver",
    "Run",
    "RunCancelledError",
    "RunControl",
    "RunEvent",
    "RunFailedError",
    "RunNotFoundError",
    "RunningLoopError",
    "Runtime",
    "SaverCall",
    "SaverClosedError",
    "SaverRequiredError",
    "SchemaMismatchError",
    "Send",
    "SerdeEvent",
    "SerializationError",
    "SerializerProtocol",
    "ServerInfo",
    "SimpleCheckpoint",
    "SimpleSaver",
    "SlowReaderError",
    "SqliteCache",
    "SqliteSaver",
    "StateGraph",
    "StateSnapshot",
    "StateUpdate",
    "StepTimeoutError",
    "StorageError",
    "StoreRequiredError",
    "StreamChannel",
    "StreamMode",
    "StreamPart",
    "StreamTransformer",
    "StreamWriter",
    "SubgraphRunStream",
    "SubgraphStatus",
    "SubgraphTransformer",
    "SwallowedInterruptWarning",
    "SystemBusyError",
    "SystemClosedError",
    "TaskFunction",
    "TaskFuture",
    "TaskPayload",
    "TaskResultPayload",
    "TasksStreamPart",
    "TasksTransformer",
    "ThreadBusyError",
    "TimeoutPolicy",
    "TracePolicy",
    "UnknownChannelWarning",
    "UnknownInterruptError",
    "UnknownTargetError",
    "UnknownTypeError",
    "UnreachableNodeWarning",
    "UpdatesStreamPart",
    "UpdatesTransformer",
    "ValuesStreamPart",
    "ValuesTransformer",
    "acting_as",
    "add_messages",
    "astep",
    "channels",
    "create_checkpoint",
    "current_principal",
    "default_retry_on",
    "empty_checkpoint",
    "entrypoint",
    "get_checkpoint_id",
    "get_config",
    "get_idempotency_key",
    "get_message_writer",
    "get_runtime",
    "get_store",
    "get_stream_writer",
    "interrupt",
    "is_invalid_resume",
    "messages",
    "new_thread_id",
    "omit_payload",
    "parse_thread_id",
    "push_message",
    "register_serde_event_listener",
    "step",
    "task",
    "thread_id_for",
    "uuid6",
    "verify_audit_log",
]


def __getattr__(name: str) -> Any:
    if name not in LAZY_IMPORTS:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    found = globals()[name] = getattr(import_module(LAZY_IMPORTS[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
