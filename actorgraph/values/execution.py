"""What a node can learn about its own execution: ExecutionInfo and ServerInfo."""

from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class ExecutionInfo:
    """Which task of which run calls the node.

    Attributes:
        checkpoint_id: the checkpoint that the task follows.
        checkpoint_ns: the task's namespace, `node:task id` below the run's own.
        task_id: the same for every attempt of the task, also after a crash.
        thread_id: None for a run without a saver.
        run_id: the call's `run_id`; the run's own id if the call's config names none.
        node_attempt: counts the task's attempts in this run from 1.
        node_first_attempt_time: seconds since 1970 at which the first of them began; for a task
            that is never retried, at which the node first asked.
        idempotency_key: tells this task from every other of the thread and stays the same when
            the task is run again; for requests to services that drop a second one.
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
        """A copy with some fields replaced."""
        return replace(self, **overrides)


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """What a server that runs graphs tells their nodes about the request; None without one.

    Attributes:
        assistant_id, graph_id: what the request named.
        user: who made it, as the server's authentication describes them.
    """

    assistant_id: str
    graph_id: str
    user: Any = None
