"""How the runs of a system end when it takes no more."""

from typing import TYPE_CHECKING

import anyio

from actorgraph.errors.texts import storable
from actorgraph.runtime.log import event as log_event

if TYPE_CHECKING:
    from actorgraph.runtime.system.actor import SystemActor


async def drain(actor: "SystemActor", reason: str, timeout_s: float) -> None:
    """Let runs that go on finish their superstep, within a deadline; leave the rest.

    Args:
        timeout_s: after four fifths of it runs are cancelled in their superstep.
    """
    reason = storable(reason)
    if actor.draining is None:
        actor.draining = reason
        log_event("info", "system.draining", active=actor.active, queued=actor.queued)
        # Copied: a follower may be left, and collected, meanwhile.
        for tell in [one for told in list(actor.followers.values()) for one in tuple(told)]:
            tell(None)
    for job in list(actor.jobs.values()):
        job.control.request_drain(reason)
        if not job.begun or not job.turn.is_open:
            actor.cancel(job, reason)
    with anyio.move_on_after(timeout_s * 0.8):
        await actor.wait_idle()
    for job in list(actor.jobs.values()):
        job.end(reason, to_others=True)
    with anyio.move_on_after(timeout_s * 0.2):
        await actor.wait_idle()
