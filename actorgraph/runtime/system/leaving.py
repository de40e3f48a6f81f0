"""How a run has left: what its row is told, what its readers are, and in which order.

A run's own saves say that it has succeeded or waits. The rest is said here: errors before them,
cancellations, and that a run was left to others. Of that the row is told behind the run's events:
whoever takes the run up believes from its row that none of them are missing.
"""

import anyio

from actorgraph.errors import ConflictError, LeaseLostError
from actorgraph.runtime.hosting import Host
from actorgraph.runtime.persistence import Receipts
from actorgraph.runtime.system.handing import handed_over
from actorgraph.runtime.system.job import Job
from actorgraph.values.run import Failed
from actorgraph.values.systems import NO_OWNER, AdoptRun, RunRow, SetRun


async def tell_left(job: Job, host: Host | None, owner: bytes, timeout_s: float) -> None:
    """Store how a run has left and tell its readers; returns when its events are stored.

    Args:
        host: of the saver; None where that keeps no runs. owner: the system's id.
        timeout_s: seconds after which it waits no more for the events.
    """
    if not job.requeued:
        await _find_lost(job, host, owner)
        store_status(job, host, owner)
    job.say_end()
    keeper = job.journal.keeper
    if keeper is not None:
        with anyio.move_on_after(timeout_s):
            await keeper.wait_idle()
    if job.misfit and host is not None:
        host.writer.post(given_back(job.row), Receipts(_told_nobody))
    elif job.requeued:
        store_status(job, host, owner)


def given_back(row: RunRow) -> AdoptRun:
    """What lets any system have a run that this one has adopted, as if it had not.

    Args:
        row: as it is stored now.
    """
    return AdoptRun(row.run, row.thread_id, NO_OWNER, row.owner, row.attempts - 1)


def store_status(job: Job, host: Host | None, owner: bytes) -> None:
    """Store what the run's own saves have not said, soon."""
    if host is None or job.lost:
        return
    if job.stored and job.supersteps and job.status in ("success", "interrupted"):
        return  # so says the save with which the run has left; one that did nothing has none
    host.writer.post(_status(job, owner), Receipts(_told_nobody))


async def _find_lost(job: Job, host: Host | None, owner: bytes) -> None:
    """Note that another system has a run, if that is why a save of it was refused.

    Its readers must not take that for the run's end.
    """
    if host is None or job.lost:
        return
    match job.outcome:
        case Failed(ConflictError()):
            try:
                await handed_over(host.writer, _status(job, owner))()
            except LeaseLostError:
                job.lost = True
            except Exception:  # noqa: BLE001 - `store_status` tries it once more
                return
        case _:
            pass


def _status(job: Job, owner: bytes) -> SetRun:
    attempts = 0 if job.requeued and job.told_all and not job.left_to_others else None
    was = job.row.owner or owner  # whose it was when it came
    return SetRun(job.id, job.thread_id, was, job.status, job.reason, attempts)


def _told_nobody(_: object) -> None:
    """A status that could not be stored is settled by `recover()`."""
