"""What the application's log says about copies and removals, once they are durable."""

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


def told(request: Request, stored: Committed) -> None:
    """Log an operation on a thread, with how many checkpoints and stray rows it has removed."""
    name = _NAMES.get(type(request))
    if name is not None:
        fields = {"removed": stored.removed, "freed": stored.freed}
        if isinstance(request, CopyThread):
            fields = {"source": request.source}
        event("info", name, thread_id=request.thread_id, **fields)
