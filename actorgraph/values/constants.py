"""Reserved names in states, streams and stored records. Programs compare with some of them."""

from typing import Final

START: Final = "__start__"
END: Final = "__end__"
INPUT: Final = "__input__"
ROOT: Final = "__root__"

INTERRUPT: Final = "__interrupt__"
RESUME: Final = "__resume__"
ERROR: Final = "__error__"
NO_WRITES: Final = "__no_writes__"
TIMES: Final = "__times__"
"""The last write of a stored row: when the task ran. No reader of writes sees it."""

CONVERTED: Final = "__converted__"
"""The write of a stored row that notes which conversions its values have had."""

ROUTED: Final = "__routed__"
"""The control write that maps a question of a subgraph to its answer."""

REMINDED: Final = "__reminded__"
"""The control write that says when questions of a task have reminded: interrupt id -> times."""

ERROR_SOURCE_NODE: Final = "__error_source_node__"
"""The control write that marks a task's failure as handled: the node's name."""

HANDLER_MARK: Final = "node_error_handler"
"""The part of a path that marks the task of an error handler; before it, the failed task's path."""

HANDLER_PREFIX: Final = "__error_handler__"
"""Begins the name of an error handler's task; the node's name follows."""

TASKS: Final = "__pregel_tasks"
"""The channel that holds the Sends of the next superstep."""

HANDED_UP: Final = "__parent__"
"""The write that holds a task's Command for the graph above: `[update, goto]`.

A third item is there if that graph has migrations: their number, and what they have converted."""

RETURN: Final = "__return__"
"""The write that holds the result of a `@task` call or a step."""

PREVIOUS: Final = "__previous__"
"""The channel that keeps the value that an entrypoint saved for its next run."""

CALL: Final = "__pregel_call"
"""The end of the path of a `@task` call or a step."""

PULL: Final = "__pregel_pull"
PUSH: Final = "__pregel_push"
BRANCH_TO: Final = "branch:to:"

NULL_TASK: Final = "00000000-0000-0000-0000-000000000000"
"""The task id of writes that no node made."""

TAG_HIDDEN: Final = "langsmith:hidden"
TAG_NOSTREAM: Final = "nostream"

CONTROL_INDEX: Final = {
    ERROR: -1,
    INTERRUPT: -3,
    RESUME: -4,
    ROUTED: -5,
    ERROR_SOURCE_NODE: -6,
    REMINDED: -7,
}
"""The ledger's index of each control write; the node's own writes count from 0."""

RESERVED_NODE_NAMES: Final = frozenset({START, END, INPUT, ROOT, INTERRUPT, "__copy__"})
RESERVED_CHANNELS: Final = frozenset(
    {
        *(TASKS, INTERRUPT, RESUME, ERROR, NO_WRITES, TIMES, CONVERTED, ROUTED, INPUT),
        *(ERROR_SOURCE_NODE, HANDED_UP, REMINDED),
    }
)
NAMESPACE_SEPARATOR: Final = "|"
NAMESPACE_END: Final = ":"
CHECKPOINT_FORMAT: Final = 4
DEFAULT_RECURSION_LIMIT: Final = 10_007
DEFAULT_NESTING_LIMIT: Final = 100

ONE_AT_A_TIME: Final = (
    "run a graph that was compiled with checkpointer=True in one task of a superstep at a time "
    "(max_concurrency=1 for its node), or compile it without"
)
"""The advice of errors about two tasks that use one stateful subgraph at once."""

LANGGRAPH_TASK: Final = "__pregel_task_id"
LANGGRAPH_SCRATCHPAD: Final = "__pregel_scratchpad"
LANGGRAPH_RUNTIME: Final = "__pregel_runtime"
LANGGRAPH_SEND: Final = "__pregel_send"
LANGGRAPH_STREAM: Final = "__pregel_stream"
LANGGRAPH_READ: Final = "__pregel_read"
LANGGRAPH_RESUMING: Final = "__pregel_resuming"
LANGGRAPH_ANSWERS: Final = "__pregel_resume_map"
LANGGRAPH_KEYS: Final = (
    LANGGRAPH_TASK,
    LANGGRAPH_SCRATCHPAD,
    LANGGRAPH_RUNTIME,
    LANGGRAPH_SEND,
    LANGGRAPH_STREAM,
    LANGGRAPH_READ,
    CALL,
    LANGGRAPH_RESUMING,
    LANGGRAPH_ANSWERS,
)
"""Keys of a task's `configurable` in which LangGraph's code finds the task that it runs in."""
