"""The parts of `Runtime` that describe a node's execution: ExecutionInfo and ServerInfo."""

from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class ExecutionInfo:
    """The task and the run in which a node is called.

    Attributes:
        checkpoint_id: the checkpoint that the task follows.
        checkpoint_ns: the task's namespace, `node:task id` below the run's own.
        task_id: the same for every attempt of the task, also after a crash.
        thread_id: None for a run without a saver.
        run_id: the call's `run_id`; the run's own id if the call's config has none.
        node_attempt: counts the task's attempts in this run from 1.
        node_first_attempt_time: seconds since 1970 when the first of them began; for a task
            without a retry policy, when the node first read it.
        idempotency_key: unique to the task in its thread, and the same when the task runs again;
            for requests to services that ignore repetitions.
    """

    checkpoint_id: str
    checkpoint_ns: str
    task_id: str
    thread_id: str | None = None
    run_id: str | None = None
    node_attempt: int = 1
    node_first_attempt_time: float | None = None
    idempotency_key: str = ""

    def patch(self, **overrides: Any) -> "ExecutionInfo":
        """Copy with some fields replaced."""
        return replace(self, **overrides)


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """The request of a server that runs graphs; nodes get None without a server.

    Attributes:
        assistant_id: named by the request.
        graph_id: named by the request.
        user: its author, as the server's authentication describes them.
    """

    assistant_id: str
    graph_id: str
    user: Any = None
