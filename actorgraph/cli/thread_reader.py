"""ThreadReader: reads threads, checkpoints and runs of a saver, with or without their graph."""

from collections.abc import Sequence
from typing import Any, cast

import anyio

from actorgraph.api.graph.compiled import CompiledStateGraph
from actorgraph.api.system.thread_finder import thread_status
from actorgraph.cli.printed import ThreadLine
from actorgraph.runtime.saver.hosting import Host, host_of
from actorgraph.studio.saver_steps import snapshot_of
from actorgraph.values.commits import ListCheckpoints, StoredCheckpoint
from actorgraph.values.state_snapshot import StateSnapshot
from actorgraph.values.systems import OPEN_STATUSES, ListRuns, RunRow

AT_ONCE = 64
"""Threads that are read at the same time."""


OURS = {"source", "step", "parents", "run_id", "writes", "thread_id"}
"""Keys of a checkpoint's metadata that the library writes."""


class ThreadReader:
    """Reads an open saver.

    Args:
        saver: an open saver, possibly one that only reads.
        graph: of the threads; with it tasks have names, and values their types.
    """

    def __init__(self, saver: Any, graph: CompiledStateGraph | None = None) -> None:
        self.saver = saver
        self.graph = graph
        self.keeps_runs: bool = getattr(saver, "keeps_runs", False)

    @property
    def host(self) -> Host:
        """The actors of the saver."""
        return host_of(self.saver)

    async def head(self, thread_id: str) -> StateSnapshot | None:
        """Read the newest state of a thread; None if it has no checkpoint."""
        place = {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}
        if self.graph is not None:
            found = await self.graph.aget_state(place)
            return found if found.created_at else None
        stored = await self.saver.aget_tuple(place)
        return None if stored is None else snapshot_of(stored)

    async def open_runs(self, thread_ids: Sequence[str]) -> dict[str, RunRow]:
        """Read the open runs of threads: thread id -> the newest."""
        if not self.keeps_runs or not thread_ids:
            return {}
        rows: list[RunRow] = []
        for at in range(0, len(thread_ids), AT_ONCE):
            some = tuple(thread_ids[at : at + AT_ONCE])
            rows += await self.host.reader.ask(ListRuns(open_of=some))
        return {row.thread_id: row for row in rows}

    async def newest_first(self, prefix: str = "") -> list[str]:
        """List the ids of threads by the time of their newest checkpoint."""
        ids = await self.saver.alist_threads()
        if self.keeps_runs:
            runs: list[RunRow] = await self.host.reader.ask(ListRuns(statuses=OPEN_STATUSES))
            ids = sorted({*ids, *(run.thread_id for run in runs)})
        moments: dict[str, int] = {}

        async def read(thread_id: str) -> None:
            query = ListCheckpoints(thread_id=thread_id, namespace="", limit=1, bare=True)
            found: list[StoredCheckpoint] = await self.host.reader.ask(query)
            moments[thread_id] = found[0].row.created if found else 0

        wanted = [one for one in ids if one.startswith(prefix)]
        for at in range(0, len(wanted), AT_ONCE):
            async with anyio.create_task_group() as group:  # together they are few transactions
                for thread_id in wanted[at : at + AT_ONCE]:
                    group.start_soon(read, thread_id)
        return sorted(wanted, key=lambda one: -moments[one])

    async def line(self, thread_id: str, run: RunRow | None) -> ThreadLine:
        """Describe a thread.

        Args:
            run: its open run.
        """
        head = await self.head(thread_id)
        graph = "" if run is None else run.graph
        if head is None:
            return ThreadLine(thread_id, "busy" if run else "idle", -1, "", (), graph, {})
        metadata = head.metadata or {}
        return ThreadLine(
            thread_id,
            thread_status(head, busy=run is not None),
            cast("int", metadata.get("step", -1)),
            head.created_at or "",
            head.next,
            graph,
            {key: value for key, value in metadata.items() if key not in OURS},
        )
