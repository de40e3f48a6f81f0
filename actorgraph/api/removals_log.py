"""Operations on whole threads: copy, delete, prune, list; with LangGraph's names.

They may be called while runs are active. A run whose newest checkpoint is removed gets a
ConflictError at its next save, so that nothing of it reappears. Copies and removals are logged
once they are durable.
"""

from actorgraph.runtime.log import event
from actorgraph.values.commits import Committed, Request
from actorgraph.values.retention import (
    CopyThread,
    DeleteCheckpoints,
    DeleteRuns,
    DeleteThread,
    Expire,
    KeepLast,
    KeepLatest,
    Sweep,
    Vacuum,
)

_NAMES: dict[type, str] = {
    CopyThread: "thread.copied",
    DeleteThread: "thread.deleted",
    DeleteCheckpoints: "checkpoints.deleted",
    DeleteRuns: "runs.deleted",
    KeepLatest: "thread.pruned",
    KeepLast: "thread.pruned",
    Expire: "thread.expired",
    Sweep: "thread.swept",
    Vacuum: "saver.vacuumed",
}


def log_removal(request: Request, stored: Committed) -> None:
    """Log an operation on a thread, with the number of checkpoints and unused rows removed."""
    name = _NAMES.get(type(request))
    if name is not None:
        fields = {"removed": stored.removed, "freed": stored.freed}
        if isinstance(request, CopyThread):
            fields = {"source": request.source}
        event("info", name, thread_id=request.thread_id, **fields)
