"""Find out whether a run failed only because another system's run on the thread is before it."""

from actorgraph.errors import CheckpointError
from actorgraph.runtime.hosting import Host
from actorgraph.runtime.system.job import Job
from actorgraph.superstep.inputs import may_begin_again
from actorgraph.superstep.turns import is_ahead
from actorgraph.values.run import Failed, RunOutcome
from actorgraph.values.systems import ListRuns, RunRow


async def came_early(job: Job, outcome: RunOutcome, host: Host | None, owner: bytes) -> bool:
    """Whether a run that has failed must begin again when the runs before it have left.

    Args:
        host: of the saver; None if that keeps no runs.
        owner: the system's id.
    """
    # The store refuses a claim while another system has the thread. Before that the run has read
    # the thread in the middle of another run: maybe a state that it can't resume, or without the
    # question that it answers. Such an error says nothing about the thread after that run.
    if host is None or not isinstance(outcome, Failed):
        return False
    if job.supervisor is not None:
        return may_begin_again(job.supervisor.failure)
    try:
        rows: list[RunRow] = await host.reader.ask(ListRuns(open_of=(job.thread_id,)))
    except CheckpointError:
        return False
    return any(is_ahead(job.id, owner, row) for row in rows)
