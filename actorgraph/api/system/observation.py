"""Look at an ActorSystem: its figures and their history, runs of all threads, other systems."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any

import anyio
import msgspec

from actorgraph.api.system.lifecycle import LifecycleMethods
from actorgraph.api.system.run_arguments import read_arguments
from actorgraph.api.system.run_handle import Run, RunAccess, StoredRun
from actorgraph.api.system.run_search import RunPage, SystemOwner, fits, run_query, system_owner
from actorgraph.runtime.system.sampling import StatisticsSample
from actorgraph.runtime.system.stored_events import read_page
from actorgraph.runtime.system.stored_reader import POLL_S
from actorgraph.values.systems import ListOwners, OwnerRow, RunEvent, RunRow, RunStatus


class ObservationMethods(LifecycleMethods):
    """Figures of an `ActorSystem`, runs of all threads, and the systems over its saver."""

    def statistics_history(self) -> list[StatisticsSample]:
        """Return samples of the last half hour, one every five seconds, oldest first.

        They are of this process, since the system was opened.
        """
        return list(self._sampler.samples)

    async def search_runs(
        self,
        statuses: Sequence[RunStatus] = (),
        *,
        graph: str | None = None,
        thread_prefix: str = "",
        since: datetime | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> RunPage:
        """Search the runs of all threads, newest first, a page at a time.

        Args:
            statuses: only runs with one of these; default all.
            graph: only runs of this graph.
            thread_prefix: only runs of threads whose id begins with this.
            since: only runs accepted then or later.
            limit: the most runs of the page, at most 1,000.
            cursor: `RunPage.cursor` of the page before.
        Raises:
            InvalidConfigError: an argument is invalid.
            StorageError: the saver can't be read.
        """
        query = run_query(
            statuses=statuses,
            graph=graph,
            thread_prefix=thread_prefix,
            since=since,
            limit=limit,
            cursor=cursor,
        )
        if self._keeps:
            rows: list[RunRow] = await self._host.reader.ask(query)
        else:
            jobs = (*self._actor.ended.values(), *self._actor.jobs.values())
            known = {job.id: msgspec.structs.replace(job.row, status=job.status) for job in jobs}
            fit = (row for _, row in sorted(known.items(), reverse=True) if fits(row, query))
            rows = list(islice(fit, limit))
        runs = [self._live(row.run) or self._stored(self._explained(row)) for row in rows]
        return RunPage(runs, runs[-1].id if len(rows) == limit else None)

    async def owners(self) -> list[SystemOwner]:
        """Return the systems over this saver that have a lease or an open run, by their ids.

        Raises:
            StorageError: the saver can't be read.
        """
        if not self._keeps:
            return []
        rows: list[OwnerRow] = await self._host.reader.ask(ListOwners())
        return [system_owner(row, self._actor.owner) for row in rows]

    def _pause_of(self, run: bytes, since: float) -> Callable[[], Awaitable[None]]:
        """Make a function that waits until a run of another process may have changed.

        Args:
            since: the time of the last look at it, in seconds of `time.monotonic()`.
        """
        dispatch = self._dispatch
        if dispatch is None:
            return partial(anyio.sleep, POLL_S)
        return dispatch.pause_of(run, since)

    def _live(self, identity: bytes) -> Run | None:
        """Return a run that is in this process's memory and was not left to another system."""
        actor = self._actor
        job = actor.jobs.get(identity) or actor.ended.get(identity)
        if job is None or (job.elsewhere and actor.draining is None):
            return None
        return Run(job, actor.cancel)

    def _stored(self, row: RunRow, looked: float = 0.0) -> StoredRun:
        """Return a run that is known from its row alone.

        Args:
            looked: a time before which the row was stored or read, in seconds of
                `time.monotonic()`; 0 to read it again before its news are waited for.
        """
        graph = self.graphs.get(row.graph) or next(iter(self.graphs.values()))
        codec = graph.codec

        async def page(after: int) -> list[RunEvent]:
            return await read_page(self._host, codec, row.run, row.thread_id, after)

        async def values() -> Any:
            return await self._values(row.graph, row.thread_id)

        access = RunAccess(
            reread=lambda: self._row(row.run),
            page=page,
            values=values,
            ask_cancel=self._end_row,
            taken_up=lambda: self._live(row.run),
            draining=lambda: self._actor.draining,
            make_pause=partial(self._pause_of, row.run),
            hears=self._dispatch is not None,
            decode=partial(read_arguments, graph),
        )
        return StoredRun(row, msgspec.json.decode(row.metadata), access, looked)
