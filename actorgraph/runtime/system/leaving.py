"""Store the outcome of a run and publish it to readers, in the right order."""

import anyio

from actorgraph.errors import ConflictError, LeaseLostError
from actorgraph.runtime.hosting import Host
from actorgraph.runtime.persistence import Receipts
from actorgraph.runtime.system.handing import post_request
from actorgraph.runtime.system.job import Job
from actorgraph.values.run import Failed
from actorgraph.values.systems import NO_OWNER, AdoptRun, RunRow, SetRun


async def publish_outcome(job: Job, host: Host | None, owner: bytes, timeout_s: float) -> None:
    """Store a run's outcome and publish it to readers; returns when its events are stored.

    Args:
        host: of the saver; None if that keeps no runs.
        owner: the system's id.
        timeout_s: seconds to wait for the storing of the events at most.
    """
    if not job.requeued:
        await _note_lost_lease(job, host, owner)
        store_status(job, host, owner)
    job.publish_end()
    keeper = job.journal.keeper
    if keeper is not None:
        with anyio.move_on_after(timeout_s):
            await keeper.wait_idle()
    if job.misfit and host is not None:
        host.writer.post(give_back_request(job.row), Receipts(_ignore_answer))
    elif job.requeued:
        store_status(job, host, owner)


def give_back_request(row: RunRow) -> AdoptRun:
    """The request that returns an adopted run, so that any system may adopt it again.

    Args:
        row: as it is stored now.
    """
    return AdoptRun(row.run, row.thread_id, NO_OWNER, row.owner, row.attempts - 1)


def store_status(job: Job, host: Host | None, owner: bytes) -> None:
    """Post a run's status, unless its own saves have stored it; doesn't wait."""
    if host is None or job.lost:
        return
    if job.stored and job.supersteps and job.status in ("success", "interrupted"):
        return  # the run's last save says so; a run without supersteps has made none
    host.writer.post(_status(job, owner), Receipts(_ignore_answer))


async def _note_lost_lease(job: Job, host: Host | None, owner: bytes) -> None:
    """Note that another system has taken a run, if that is why a save of it was refused.

    Its readers are then not told that the run has ended.
    """
    if host is None or job.lost:
        return
    match job.outcome:
        case Failed(ConflictError()):
            try:
                await post_request(host.writer, _status(job, owner))()
            except LeaseLostError:
                job.lost = True
            except Exception:  # noqa: BLE001 - `store_status` tries again
                return
        case _:
            pass


def _status(job: Job, owner: bytes) -> SetRun:
    attempts = 0 if job.requeued and job.all_events_stored and not job.left_to_others else None
    was = job.row.owner or owner  # the owner when it was accepted: the store compares it
    return SetRun(job.id, job.thread_id, was, job.status, job.reason, attempts)


def _ignore_answer(_: object) -> None:
    """Ignore an error: `recover()` settles a run whose status could not be stored."""
