"""ThreadReader: reads threads, checkpoints and runs of a saver, with or without their graph."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import anyio

from actorgraph.cli.exit_codes import CommandError, UsageError
from actorgraph.cli.printed import (
    CheckpointLine,
    FailedTask,
    OpenQuestion,
    RunInfo,
    ThreadLine,
    ThreadShown,
)
from actorgraph.graph import CompiledStateGraph
from actorgraph.internals import (
    DAMAGED,
    OPEN_STATUSES,
    UNREADABLE,
    Host,
    ListCheckpoints,
    ListRuns,
    PhaseFacts,
    RunRow,
    StoredCheckpoint,
    as_text,
    damaged_id,
    host_of,
    is_thread_id,
    list_stored,
    microseconds_now,
    phase_of,
    read_stored,
    runs_of_threads,
    thread_status,
    waits_for_time,
    without_later,
)
from actorgraph.internals import THREADS_AT_ONCE as AT_ONCE
from actorgraph.studio.steps import checkpoint_of, parent_of
from actorgraph.types import StateSnapshot
from actorgraph.web.http.jsonable import to_plain
from actorgraph.web.http.question_words import times_of

ID_PART_MIN = 6
"""Digits from which a number is part of a checkpoint's id, not a step."""


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
        place = place_of(thread_id)
        if self.graph is not None:
            found = await self.graph.aget_state(place)
            return found if found.created_at or found.next else None
        return await read_stored(self.host, self.saver.codec, thread_id)

    async def runs_of(self, thread_ids: Sequence[str]) -> dict[str, list[RunRow]]:
        """Read the runs of threads that are open or parked: id -> its runs, by their ids."""
        return await runs_of_threads(self.host, thread_ids) if self.keeps_runs else {}

    async def open_runs(self, thread_ids: Sequence[str]) -> dict[str, RunRow]:
        """Read the open runs of threads: id -> the newest; a delayed one if alone."""
        found = await self.runs_of(thread_ids)
        newest = {thread_id: newest_open(rows) for thread_id, rows in found.items()}
        return {thread_id: row for thread_id, row in newest.items() if row is not None}

    async def newest_first(self, prefix: str = "") -> list[str]:
        """List the ids of threads by the time of their newest checkpoint; last those without one.

        A thread whose newest checkpoint can't be read counts as one without.
        """
        ids = await self.saver.alist_threads()
        if self.keeps_runs:
            runs: list[RunRow] = await self.host.reader.ask(ListRuns(statuses=OPEN_STATUSES))
            ids = sorted({*ids, *(run.thread_id for run in runs)})
        moments: dict[str, int] = {}

        async def read(thread_id: str) -> None:
            query = ListCheckpoints(thread_id=thread_id, namespace="", limit=1, bare=True)
            found: list[StoredCheckpoint] = []
            with suppress(*UNREADABLE, *DAMAGED):  # `line` shows why
                found = await self.host.reader.ask(query)
            moments[thread_id] = found[0].row.created if found else 0

        wanted = [one for one in ids if one.startswith(prefix)]
        for at in range(0, len(wanted), AT_ONCE):
            async with anyio.create_task_group() as group:  # together they are few transactions
                for thread_id in wanted[at : at + AT_ONCE]:
                    group.start_soon(read, thread_id)
        return sorted(wanted, key=lambda one: -moments[one])

    async def line(self, thread_id: str, runs: Sequence[RunRow]) -> ThreadLine:
        """Describe a thread.

        Args:
            runs: those that are open or parked.
        """
        run = newest_open(runs) or next(iter(runs), None)
        graph = "" if run is None else run.graph
        busy = has_thread(newest_open(runs))
        try:
            if not is_thread_id(thread_id):
                raise damaged_id(thread_id)
            head = await self.head(thread_id)
        except (*UNREADABLE, *DAMAGED) as error:  # it must not hide the other threads of a list
            return ThreadLine(thread_id, "error", "failed", -1, "", None, (), graph, {}, str(error))
        if head is None:
            phase, status = (
                phase_of(PhaseFacts(), without_later(runs, microseconds_now())),
                "busy" if busy else "idle",
            )
            return ThreadLine(thread_id, status, phase, -1, "", None, (), graph, {})
        return ThreadLine(
            thread_id,
            thread_status(head, busy=busy),
            phase_of(head.phase_facts(), without_later(runs, microseconds_now())),
            step_of(head),
            head.created_at or "",
            age_of(head),
            head.next,
            graph,
            own_metadata(head),
            times=times_of(head.interrupts),
        )

    async def must_find(self, thread_id: str) -> StateSnapshot:
        """Read the newest state of a thread.

        Raises:
            CommandError: it has no checkpoint.
        """
        head = await self.head(thread_id)
        if head is None:
            raise CommandError(
                f"thread {thread_id!r} has no checkpoint here",
                do="list the threads with `actorgraph threads`",
            )
        return head

    async def steps(self, thread_id: str, limit: int | None) -> list[StateSnapshot]:
        """Read checkpoints of a thread, newest first; the newest with its pending writes.

        Raises:
            CommandError: the thread has none.
        """
        head = await self.must_find(thread_id)
        if self.graph is not None:
            pages = self.graph.aget_state_history(thread_id=thread_id, limit=limit)
            found = [step async for step in pages]
        else:
            listed = list_stored(self.host, self.saver.codec, thread_id, limit=limit)
            found = [step async for step in listed]
        return [head, *(found[1:] if head.created_at else found)]

    async def step(self, thread_id: str, name: str) -> StateSnapshot:
        """Read the checkpoint that a person names.

        Args:
            name: its id, the beginning or the end of it, its step (the newest with that number),
                or "latest".
        Raises:
            UsageError: none, or more than one, has that name.
        """
        if name in ("latest", "head"):
            return await self.must_find(thread_id)
        steps = await self.steps(thread_id, None)
        if name.lstrip("-").isdecimal() and len(name) < ID_PART_MIN:
            found = [step for step in steps if step_of(step) == int(name)][:1]
        else:
            ids = {checkpoint_of(step): step for step in steps}
            fits = [one for one in ids if one.startswith(name) or one.endswith(name)]
            found = [ids[one] for one in ([name] if name in ids else fits)]
        if len(found) != 1 or not name:
            raise UsageError(
                f"{name!r} names {len(found)} checkpoints of thread {thread_id!r}",
                do=f"take an id or a step of `actorgraph history {thread_id}`",
            )
        return found[0]

    async def runs(self, thread_id: str, *, only_open: bool = True) -> list[RunRow]:
        """Read the runs of a thread, oldest first."""
        if not self.keeps_runs:
            return []
        statuses = OPEN_STATUSES if only_open else ()
        return await self.host.reader.ask(ListRuns(thread_id=thread_id, statuses=statuses))


def newest_open(runs: Sequence[RunRow]) -> RunRow | None:
    """Return the newest open run of a thread, a delayed one if it has no other; None for none."""
    rows = [row for row in runs if row.status in OPEN_STATUSES]
    return max(rows, key=lambda row: (has_thread(row), row.run), default=None)


def has_thread(run: RunRow | None) -> bool:
    """Whether a thread's open run, if it has one, doesn't only wait for its time."""
    return run is not None and not waits_for_time(run, microseconds_now())


def place_of(thread_id: str) -> dict[str, Any]:
    """Return the config of a thread's own checkpoints, without those of subgraphs."""
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}


def step_of(found: StateSnapshot) -> int:
    """Return the number of a checkpoint's step; -1 if it has none."""
    number = (found.metadata or {}).get("step")
    return number if isinstance(number, int) else -1


def age_of(found: StateSnapshot) -> float | None:
    """Return the seconds since a checkpoint was made; None if that isn't known."""
    if not found.created_at:
        return None
    made = datetime.fromisoformat(found.created_at)
    return round(max(0.0, (datetime.now(UTC) - made).total_seconds()), 3)


def own_metadata(found: StateSnapshot) -> dict[str, Any]:
    """Return the metadata that callers gave."""
    given = (found.metadata or {}).items()
    return to_plain({key: value for key, value in given if key not in OURS})


def questions_of(found: StateSnapshot) -> tuple[OpenQuestion, ...]:
    """Return the open questions of a state."""
    return tuple(
        OpenQuestion(
            asked.id,
            task.name,
            to_plain(asked.value),
            to_plain(asked.response_schema),
            times_of([asked]),
        )
        for task in found.tasks
        for asked in task.interrupts
    )


def checkpoint_line(
    found: StateSnapshot, runs: Sequence[RunRow] = (), *, is_head: bool = False
) -> CheckpointLine:
    """Describe a checkpoint.

    Args:
        runs: of the thread, open or parked.
        is_head: whether it is the newest.
    """
    metadata = found.metadata or {}
    failed = any(task.error is not None for task in found.tasks)
    asks = "sleeping" if all(asked.sleeps for asked in found.interrupts) else "waiting"
    status = "failed" if failed else asks if found.interrupts else ""
    if is_head:
        phase = phase_of(found.phase_facts(), without_later(runs, microseconds_now()))
        status = "" if phase == "ended" else phase
    return CheckpointLine(
        checkpoint_of(found),
        parent_of(found),
        step_of(found),
        str(metadata.get("source", "")),
        found.created_at or "",
        found.next,
        status,
    )


def thread_state(thread_id: str, found: StateSnapshot, runs: Sequence[RunRow]) -> ThreadShown:
    """Describe the state of a thread.

    Args:
        runs: those that are open or parked.
    """
    run = newest_open(runs)
    phase = phase_of(found.phase_facts(), without_later(runs, microseconds_now()))
    shown = next(iter(runs), None) if run is None and phase == "parked" else run
    return ThreadShown(
        thread_id,
        thread_status(found, busy=has_thread(run)),
        phase,
        step_of(found),
        checkpoint_of(found),
        found.created_at or "",
        age_of(found),
        found.next,
        to_plain(found.values),
        questions_of(found),
        tuple(FailedTask(t.name, str(t.error)) for t in found.tasks if t.error is not None),
        own_metadata(found),
        None if shown is None else run_info(shown),
    )


def run_info(row: RunRow) -> RunInfo:
    """Describe a run of a system."""
    created = datetime.fromtimestamp(row.created / 1e6, UTC).isoformat()
    return RunInfo(as_text(row.run), row.status, row.graph, row.alive, created, row.reason)
