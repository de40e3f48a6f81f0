"""The jobs of one server, see `background`."""

from actorgraph.web.background import BackgroundJob, add_job
from actorgraph.web.cron_actor import CronActor
from actorgraph.web.endpoint import Server
from actorgraph.web.ttl_sweeper import TtlSweeper


def start_background(server: Server) -> list[BackgroundJob]:
    """Let a server's jobs look while its system's lifespan runs, and while the result is kept."""
    jobs: list[BackgroundJob] = [CronActor(server), server.webhooks, TtlSweeper(server)]
    for job in jobs:
        add_job(server.system, job)
    return jobs
