"""The body of a webhook, except the state that its run has left."""

from typing import Any

from actorgraph.internals import assistant_id
from actorgraph.systems import Run
from actorgraph.web.http.problems import public_reason
from actorgraph.web.jobs.webhooks import KEPT
from actorgraph.web.registries.thread_registry import moment

_STATUS = {"cancelled": "interrupted", "parked": "error"}


def described(run: Run) -> dict[str, Any]:
    """Return the fields of a webhook's body about a run that has ended, except the values."""
    said: dict[str, Any] = run.metadata.get(KEPT, {})
    failed = run.status in ("error", "timeout", "parked")
    return {
        "run_id": run.id,
        "thread_id": run.thread_id,
        "assistant_id": said.get("assistant") or assistant_id(run.graph),
        "graph_id": run.graph,
        "status": _STATUS.get(run.status, run.status),
        "metadata": {k: v for k, v in run.metadata.items() if k != KEPT},
        "multitask_strategy": said.get("if_busy", "reject"),
        "created_at": run.created_at.isoformat(),
        "run_ended_at": moment(),
        "error": public_reason(run.reason) if failed else None,
    }
