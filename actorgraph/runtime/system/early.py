"""Whether a run that has ended has only come too early: another system's run is before it."""

from actorgraph.errors import CheckpointError
from actorgraph.runtime.hosting import Host
from actorgraph.runtime.system.job import Job
from actorgraph.superstep.inputs import may_begin_again
from actorgraph.superstep.turns import is_ahead
from actorgraph.values.run import Failed, RunOutcome
from actorgraph.values.systems import ListRuns, RunRow


async def came_early(job: Job, outcome: RunOutcome, host: Host | None, owner: bytes) -> bool:
    """Whether a run is to begin anew when those before it have left.

    The store refuses its claim while another system has its thread. Before that it has read the
    thread, maybe in the middle of a run of another version that it can't go on with, or without
    the question that it answers: such an error says nothing about the thread as it will be.

    Args:
        host: of the saver; None where that keeps no runs. owner: the system's id.
    """
    if host is None or not isinstance(outcome, Failed):
        return False
    if job.supervisor is not None:
        return may_begin_again(job.supervisor.failure)
    try:
        rows: list[RunRow] = await host.reader.ask(ListRuns(open_of=(job.thread_id,)))
    except CheckpointError:
        return False
    return any(is_ahead(job.id, owner, row) for row in rows)
