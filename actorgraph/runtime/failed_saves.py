"""Log records of saves that failed."""

from actorgraph.errors import StorageError
from actorgraph.runtime.log import event
from actorgraph.values.commits import Commit, Request
from actorgraph.values.ids import as_text


def log_failed_save(request: Request, error: StorageError) -> None:
    """Log one failed request: its thread, and the checkpoint and step that are not stored."""
    fields: dict[str, object] = {"thread_id": request.thread_id, "error": error.what}
    if isinstance(request, Commit):
        fields["checkpoint_ns"] = request.namespace
        if request.run:
            fields["run_id"] = as_text(request.run)
        if request.checkpoints:
            newest = request.checkpoints[-1]
            fields["checkpoint_id"], fields["step"] = as_text(newest.id), newest.step
        elif request.ledger:
            fields["checkpoint_id"] = as_text(request.ledger[-1].base)
    event("error", "save.failed", **fields)
