"""actorgraph: durable graphs over shared state, thousands of runs in one process.

Declare a `StateGraph`, `compile` it with a saver, then call `ainvoke` or `astream` on threads, on
asyncio or trio. Names are the same as LangGraph's wherever it has the same concept.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from actorgraph import channels, messages
from actorgraph.api.graph.compiled import CompiledStateGraph
from actorgraph.api.graph.state_graph import StateGraph
from actorgraph.api.lazy_imports import LAZY_IMPORTS
from actorgraph.api.savers.hosted import InMemorySaver, MemorySaver
from actorgraph.codec import AesCipher, CipherProtocol, Codec, EncryptedSerializer
from actorgraph.codec.errors import SerdeEvent, register_serde_event_listener
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
from actorgraph.plan.pregel import ChannelWriteEntry
from actorgraph.plan.schema import IsLastStep, RemainingSteps
from actorgraph.runtime.run.lifecycle import (
    GraphCallbackHandler,
    GraphInterruptEvent,
    GraphLifecycleEvent,
    GraphResumeEvent,
)
from actorgraph.runtime.task.functions import get_runtime, get_store, interrupt
from actorgraph.runtime.task.futures import TaskFuture
from actorgraph.runtime.task.messages import get_message_writer
from actorgraph.runtime.task.runtime import Runtime
from actorgraph.runtime.task.scope import get_config, get_stream_writer
from actorgraph.values.checkpoint import Latest, Migration, ResumeTarget
from actorgraph.values.commands import (
    Command,
    GraphOutput,
    Interrupt,
    NodeInterrupt,
    Overwrite,
    RunControl,
    Send,
    StateUpdate,
    is_invalid_resume,
)
from actorgraph.values.constants import END, START, TAG_HIDDEN, TAG_NOSTREAM
from actorgraph.values.policies import (
    All,
    CachePolicy,
    Durability,
    RetryPolicy,
    StreamMode,
    TimeoutPolicy,
    TracePolicy,
    default_retry_on,
    omit_payload,
)
from actorgraph.values.run import ExecutionInfo, ServerInfo
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

if TYPE_CHECKING:
    from actorgraph.api.functional.entrypoints import entrypoint
    from actorgraph.api.functional.tasks import TaskFunction, task
    from actorgraph.api.graph.drawable import DrawableGraph
    from actorgraph.api.graph.pregel import NodeBuilder, Pregel
    from actorgraph.api.savers.around.audit import (
        AuditedSaver,
        AuditHead,
        AuditLog,
        verify_audit_log,
    )
    from actorgraph.api.savers.around.guard import GuardedSaver
    from actorgraph.api.savers.around.limits import LimitedSaver
    from actorgraph.api.savers.around.metrics import MeteredSaver, SaverCall
    from actorgraph.api.savers.around.retries import RetryingSaver
    from actorgraph.api.savers.around.wrapped import acting_as, current_principal
    from actorgraph.api.savers.base_saver import (
        BaseCheckpointSaver,
        create_checkpoint,
        empty_checkpoint,
        get_checkpoint_id,
        uuid6,
    )
    from actorgraph.api.savers.foreign import ForeignSaver
    from actorgraph.api.savers.jsonl import JsonlSaver
    from actorgraph.api.savers.postgres import AsyncPostgresSaver, PostgresSaver
    from actorgraph.api.savers.simple import SimpleCheckpoint, SimpleSaver
    from actorgraph.api.savers.sqlite import AsyncSqliteSaver, SqliteSaver
    from actorgraph.api.streams.events import ProtocolEvent, StreamChannel, StreamTransformer
    from actorgraph.api.streams.messages import (
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
    from actorgraph.api.system.runs import Run
    from actorgraph.api.system.system import ActorSystem
    from actorgraph.api.thread_ids import new_thread_id, parse_thread_id, thread_id_for
    from actorgraph.caches import BaseCache, FullKey, InMemoryCache, SqliteCache
    from actorgraph.codec.serializers import SerializerProtocol
    from actorgraph.errors import ForeignSaverWarning, NotSupportedError
    from actorgraph.ports import Checkpointer
    from actorgraph.runtime.task.functions import astep, get_idempotency_key, step
    from actorgraph.values.checkpoint import (
        ChannelVersions,
        Checkpoint,
        CheckpointConfig,
        CheckpointMetadata,
        CheckpointSource,
        CheckpointSummary,
        CheckpointTuple,
    )
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
