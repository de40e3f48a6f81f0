"""Checkpoints and savers: those that store them, wrappers around savers, base classes for others.

The home of LangGraph's `langgraph.checkpoint`. Nothing is defined here. An import loads sqlite3;
psycopg is loaded when a saver of PostgreSQL opens.
"""

from actorgraph.api.savers.base_saver import (
    BaseCheckpointSaver,
    create_checkpoint,
    empty_checkpoint,
    get_checkpoint_id,
    uuid6,
)
from actorgraph.api.savers.foreign import ForeignSaver
from actorgraph.api.savers.hosted import HostedSaver, InMemorySaver, MemorySaver
from actorgraph.api.savers.jsonl import JsonlSaver
from actorgraph.api.savers.postgres import AsyncPostgresSaver, PostgresSaver
from actorgraph.api.savers.simple import SimpleCheckpoint, SimpleSaver
from actorgraph.api.savers.sqlite import AsyncSqliteSaver, SqliteSaver
from actorgraph.api.savers.wrappers.audit import AuditedSaver, AuditHead, AuditLog, verify_audit_log
from actorgraph.api.savers.wrappers.guard import GuardedSaver
from actorgraph.api.savers.wrappers.metered import MeteredSaver, SaverCall
from actorgraph.api.savers.wrappers.retries import RetryingSaver
from actorgraph.api.savers.wrappers.size_limits import LimitedSaver
from actorgraph.api.savers.wrappers.wrapped import acting_as, current_principal
from actorgraph.ports import Checkpointer
from actorgraph.values.checkpoint import (
    ChannelVersions,
    Checkpoint,
    CheckpointConfig,
    CheckpointMetadata,
    CheckpointSource,
    CheckpointSummary,
    CheckpointTuple,
)

__all__ = [
    "AsyncPostgresSaver",
    "AsyncSqliteSaver",
    "AuditHead",
    "AuditLog",
    "AuditedSaver",
    "BaseCheckpointSaver",
    "ChannelVersions",
    "Checkpoint",
    "CheckpointConfig",
    "CheckpointMetadata",
    "CheckpointSource",
    "CheckpointSummary",
    "CheckpointTuple",
    "Checkpointer",
    "ForeignSaver",
    "GuardedSaver",
    "HostedSaver",
    "InMemorySaver",
    "JsonlSaver",
    "LimitedSaver",
    "MemorySaver",
    "MeteredSaver",
    "PostgresSaver",
    "RetryingSaver",
    "SaverCall",
    "SimpleCheckpoint",
    "SimpleSaver",
    "SqliteSaver",
    "acting_as",
    "create_checkpoint",
    "current_principal",
    "empty_checkpoint",
    "get_checkpoint_id",
    "uuid6",
    "verify_audit_log",
]
