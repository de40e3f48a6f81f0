"""actorgraph: durable graphs over shared state, thousands of runs in one process.

Declare a `StateGraph`, `compile` it with a saver, then call `ainvoke` or `astream` on threads, on
asyncio or trio. Names are the same as LangGraph's wherever it has the same concept.

`__all__` has the names of a first program. The others are in the modules that
docs/reference/names.md lists; `from actorgraph import` finds most of them too.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from actorgraph.api.lazy_imports import LAZY_IMPORTS
from actorgraph.bridges import register_bridges as _register_bridges

if TYPE_CHECKING:
    # Every name is imported at its first use: `import actorgraph` and the command's help are quick.
    from actorgraph import channels as channels
    from actorgraph import messages as messages
    from actorgraph.api.functional.entrypoints import entrypoint
    from actorgraph.api.functional.task_functions import task
    from actorgraph.api.graph.compiled import CompiledStateGraph
    from actorgraph.api.graph.state_graph import StateGraph
    from actorgraph.api.savers.base_saver import BaseCheckpointSaver
    from actorgraph.api.savers.hosted import InMemorySaver, MemorySaver
    from actorgraph.api.savers.jsonl import JsonlSaver
    from actorgraph.api.savers.postgres import AsyncPostgresSaver, PostgresSaver
    from actorgraph.api.savers.sqlite import AsyncSqliteSaver, SqliteSaver
    from actorgraph.api.system.run_handle import Run
    from actorgraph.api.system.system import ActorSystem
    from actorgraph.caches import InMemoryCache, SqliteCache
    from actorgraph.codec import Codec
    from actorgraph.errors import (
        ActorGraphError,
        ActorGraphWarning,
        ConflictError,
        EmptyInputError,
        GraphBubbleUp,
        GraphBuildError,
        GraphDrained,
        GraphInterrupt,
        GraphRecursionError,
        InvalidConfigError,
        InvalidUpdateError,
        NodeError,
        NodeTimeoutError,
        ParentCommand,
        RunCancelledError,
        SaverRequiredError,
        SerializationError,
        StorageError,
        SystemBusyError,
        ThreadBusyError,
    )
    from actorgraph.messages import REMOVE_ALL_MESSAGES, MessagesState, RemoveMessage, add_messages
    from actorgraph.plan.schema import IsLastStep, RemainingSteps
    from actorgraph.runtime.task.functions import get_runtime, get_store, interrupt
    from actorgraph.runtime.task.runtime import Runtime
    from actorgraph.runtime.task.scope import get_config, get_stream_writer
    from actorgraph.runtime.task.timed_questions import sleep, sleep_until
    from actorgraph.values.commands import Command, GraphOutput, Interrupt, Overwrite, Send
    from actorgraph.values.constants import END, START
    from actorgraph.values.policies import (
        CachePolicy,
        Durability,
        RetryPolicy,
        StreamMode,
        TimeoutPolicy,
    )
    from actorgraph.values.state_snapshot import StateSnapshot
    from actorgraph.values.stream_items import StreamWriter

    # Not in `__all__`, but found: `X as X` declares the export to type checkers. isort would write
    # one statement for each of them.
    # isort: off
    from actorgraph.api.functional.task_functions import TaskFunction as TaskFunction
    from actorgraph.api.graph.drawable import DrawableGraph as DrawableGraph
    from actorgraph.api.graph.pregel import NodeBuilder as NodeBuilder, Pregel as Pregel
    from actorgraph.api.savers.wrappers.audit import (
        AuditHead as AuditHead,
        AuditLog as AuditLog,
        AuditedSaver as AuditedSaver,
        verify_audit_log as verify_audit_log,
    )
    from actorgraph.api.savers.wrappers.guard import GuardedSaver as GuardedSaver
    from actorgraph.api.savers.wrappers.size_limits import LimitedSaver as LimitedSaver
    from actorgraph.api.savers.wrappers.metered import (
        MeteredSaver as MeteredSaver,
        SaverCall as SaverCall,
    )
    from actorgraph.api.savers.wrappers.retries import RetryingSaver as RetryingSaver
    from actorgraph.api.savers.wrappers.wrapped import (
        acting_as as acting_as,
        current_principal as current_principal,
    )
    from actorgraph.api.savers.base_saver import (
        create_checkpoint as create_checkpoint,
        empty_checkpoint as empty_checkpoint,
        get_checkpoint_id as get_checkpoint_id,
        uuid6 as uuid6,
    )
    from actorgraph.api.savers.foreign import ForeignSaver as ForeignSaver
    from actorgraph.api.savers.simple import (
        SimpleCheckpoint as SimpleCheckpoint,
        SimpleSaver as SimpleSaver,
    )
    from actorgraph.api.streams.events import (
        ProtocolEvent as ProtocolEvent,
        StreamChannel as StreamChannel,
        StreamTransformer as StreamTransformer,
    )
    from actorgraph.api.streams.message_streams import (
        AsyncMessageStream as AsyncMessageStream,
        MessageStream as MessageStream,
        MessagesTransformer as MessagesTransformer,
        push_message as push_message,
    )
    from actorgraph.api.streams.projections import (
        CheckpointsTransformer as CheckpointsTransformer,
        CustomTransformer as CustomTransformer,
        DebugTransformer as DebugTransformer,
        LifecyclePayload as LifecyclePayload,
        LifecycleTransformer as LifecycleTransformer,
        SubgraphStatus as SubgraphStatus,
        TasksTransformer as TasksTransformer,
        UpdatesTransformer as UpdatesTransformer,
        ValuesTransformer as ValuesTransformer,
    )
    from actorgraph.api.streams.run_stream import (
        AsyncGraphRunStream as AsyncGraphRunStream,
        AsyncSubgraphRunStream as AsyncSubgraphRunStream,
        GraphRunStream as GraphRunStream,
        SubgraphRunStream as SubgraphRunStream,
        SubgraphTransformer as SubgraphTransformer,
    )
    from actorgraph.api.thread_ids import (
        new_thread_id as new_thread_id,
        parse_thread_id as parse_thread_id,
        thread_id_for as thread_id_for,
    )
    from actorgraph.caches import BaseCache as BaseCache, FullKey as FullKey
    from actorgraph.codec import (
        AesCipher as AesCipher,
        CipherProtocol as CipherProtocol,
        EncryptedSerializer as EncryptedSerializer,
        SerdeEvent as SerdeEvent,
        SerializerProtocol as SerializerProtocol,
        register_serde_event_listener as register_serde_event_listener,
    )
    from actorgraph.errors import (
        AlreadyResumed as AlreadyResumed,
        CacheWarning as CacheWarning,
        CheckpointError as CheckpointError,
        CompiledGraphWarning as CompiledGraphWarning,
        EmptyChannelError as EmptyChannelError,
        EncryptionError as EncryptionError,
        ErrorCode as ErrorCode,
        ForeignSaverWarning as ForeignSaverWarning,
        FormatVersionError as FormatVersionError,
        InvalidContextError as InvalidContextError,
        InvalidResumeError as InvalidResumeError,
        LeaseLostError as LeaseLostError,
        LostErrorWarning as LostErrorWarning,
        MissingExtraError as MissingExtraError,
        MissingNodeError as MissingNodeError,
        NodeCancelledError as NodeCancelledError,
        NotSupportedError as NotSupportedError,
        ResultTimeoutError as ResultTimeoutError,
        RunFailedError as RunFailedError,
        RunNotFoundError as RunNotFoundError,
        RunningLoopError as RunningLoopError,
        SaverClosedError as SaverClosedError,
        SchemaMismatchError as SchemaMismatchError,
        SlowReaderError as SlowReaderError,
        StepTimeoutError as StepTimeoutError,
        StoreRequiredError as StoreRequiredError,
        SwallowedInterruptWarning as SwallowedInterruptWarning,
        SystemClosedError as SystemClosedError,
        UnknownChannelWarning as UnknownChannelWarning,
        UnknownInterruptError as UnknownInterruptError,
        UnknownTargetError as UnknownTargetError,
        UnknownTypeError as UnknownTypeError,
        UnreachableNodeWarning as UnreachableNodeWarning,
    )
    from actorgraph.plan.channel_graph import ChannelWriteEntry as ChannelWriteEntry
    from actorgraph.ports import Checkpointer as Checkpointer
    from actorgraph.runtime.run.callbacks import (
        GraphCallbackHandler as GraphCallbackHandler,
        GraphInterruptEvent as GraphInterruptEvent,
        GraphLifecycleEvent as GraphLifecycleEvent,
        GraphResumeEvent as GraphResumeEvent,
    )
    from actorgraph.runtime.task.functions import (
        astep as astep,
        get_idempotency_key as get_idempotency_key,
        step as step,
    )
    from actorgraph.runtime.task.futures import TaskFuture as TaskFuture
    from actorgraph.runtime.task.messages import get_message_writer as get_message_writer
    from actorgraph.values.checkpoint import (
        ChannelVersions as ChannelVersions,
        Checkpoint as Checkpoint,
        CheckpointConfig as CheckpointConfig,
        CheckpointMetadata as CheckpointMetadata,
        CheckpointSource as CheckpointSource,
        CheckpointSummary as CheckpointSummary,
        CheckpointTuple as CheckpointTuple,
        Latest as Latest,
        Migration as Migration,
        ResumeTarget as ResumeTarget,
    )
    from actorgraph.values.commands import (
        NodeInterrupt as NodeInterrupt,
        RunControl as RunControl,
        StateUpdate as StateUpdate,
        is_invalid_resume as is_invalid_resume,
    )
    from actorgraph.values.constants import TAG_HIDDEN as TAG_HIDDEN, TAG_NOSTREAM as TAG_NOSTREAM
    from actorgraph.values.policies import (
        All as All,
        TracePolicy as TracePolicy,
        default_retry_on as default_retry_on,
        omit_payload as omit_payload,
    )
    from actorgraph.values.run import ExecutionInfo as ExecutionInfo, ServerInfo as ServerInfo
    from actorgraph.values.state_snapshot import PregelTask as PregelTask
    from actorgraph.values.stream_items import (
        CheckpointPayload as CheckpointPayload,
        CheckpointStreamPart as CheckpointStreamPart,
        CustomStreamPart as CustomStreamPart,
        DebugPayload as DebugPayload,
        DebugStreamPart as DebugStreamPart,
        MessagesStreamPart as MessagesStreamPart,
        StreamPart as StreamPart,
        TaskPayload as TaskPayload,
        TaskResultPayload as TaskResultPayload,
        TasksStreamPart as TasksStreamPart,
        UpdatesStreamPart as UpdatesStreamPart,
        ValuesStreamPart as ValuesStreamPart,
    )
    from actorgraph.values.systems import RunEvent as RunEvent
    from actorgraph.values.version import __version__ as __version__
    # isort: on

_register_bridges()

__all__ = [
    "END",
    "REMOVE_ALL_MESSAGES",
    "START",
    "ActorGraphError",
    "ActorGraphWarning",
    "ActorSystem",
    "AsyncPostgresSaver",
    "AsyncSqliteSaver",
    "BaseCheckpointSaver",
    "CachePolicy",
    "Codec",
    "Command",
    "CompiledStateGraph",
    "ConflictError",
    "Durability",
    "EmptyInputError",
    "GraphBubbleUp",
    "GraphBuildError",
    "GraphDrained",
    "GraphInterrupt",
    "GraphOutput",
    "GraphRecursionError",
    "InMemoryCache",
    "InMemorySaver",
    "Interrupt",
    "InvalidConfigError",
    "InvalidUpdateError",
    "IsLastStep",
    "JsonlSaver",
    "MemorySaver",
    "MessagesState",
    "NodeError",
    "NodeTimeoutError",
    "Overwrite",
    "ParentCommand",
    "PostgresSaver",
    "RemainingSteps",
    "RemoveMessage",
    "RetryPolicy",
    "Run",
    "RunCancelledError",
    "Runtime",
    "SaverRequiredError",
    "Send",
    "SerializationError",
    "SqliteCache",
    "SqliteSaver",
    "StateGraph",
    "StateSnapshot",
    "StorageError",
    "StreamMode",
    "StreamWriter",
    "SystemBusyError",
    "ThreadBusyError",
    "TimeoutPolicy",
    "add_messages",
    "entrypoint",
    "get_config",
    "get_runtime",
    "get_store",
    "get_stream_writer",
    "interrupt",
    "sleep",
    "sleep_until",
    "task",
]


def __getattr__(name: str) -> Any:
    if name not in LAZY_IMPORTS:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    home = LAZY_IMPORTS[name]
    if home == __name__:  # `actorgraph.channels` and `actorgraph.messages`
        return import_module(f"{home}.{name}")
    found = globals()[name] = getattr(import_module(home), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
