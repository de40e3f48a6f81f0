"""Values that graphs and programs exchange: commands, policies, snapshots, parts of streams.

The home of LangGraph's `langgraph.types` and of the tags in its constants. Nothing is defined here.
"""

from actorgraph.ports import Checkpointer
from actorgraph.runtime.task.functions import interrupt
from actorgraph.runtime.task.timed_questions import sleep, sleep_until
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
from actorgraph.values.constants import TAG_HIDDEN, TAG_NOSTREAM
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
from actorgraph.values.state_snapshot import PregelTask, StateHistory, StateSnapshot
from actorgraph.values.stream_items import (
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
from actorgraph.values.timeline import TaskAttempt, TimelineStep, TimelineTask

__all__ = [
    "TAG_HIDDEN",
    "TAG_NOSTREAM",
    "All",
    "CachePolicy",
    "CheckpointPayload",
    "CheckpointStreamPart",
    "Checkpointer",
    "Command",
    "CustomStreamPart",
    "DebugPayload",
    "DebugStreamPart",
    "Durability",
    "ExecutionInfo",
    "GraphOutput",
    "Interrupt",
    "Latest",
    "MessagesStreamPart",
    "Migration",
    "NodeInterrupt",
    "Overwrite",
    "PregelTask",
    "ResumeTarget",
    "RetryPolicy",
    "RunControl",
    "Send",
    "ServerInfo",
    "StateHistory",
    "StateSnapshot",
    "StateUpdate",
    "StreamMode",
    "StreamPart",
    "StreamWriter",
    "TaskAttempt",
    "TaskPayload",
    "TaskResultPayload",
    "TasksStreamPart",
    "TimelineStep",
    "TimelineTask",
    "TimeoutPolicy",
    "TracePolicy",
    "UpdatesStreamPart",
    "ValuesStreamPart",
    "default_retry_on",
    "interrupt",
    "is_invalid_resume",
    "omit_payload",
    "sleep",
    "sleep_until",
]
