"""Every package's thread at once: begin it, go on with it, answer it, stop it.

Receives   packages, a database, and a function that answers a reviewer's question
Sends      an Outcome: how far each thread is
Order      threads run side by side in one process and share one saver, so their commits
           share transactions.
Ends       when every thread is finished or waits for a verdict; or at Ctrl-C, which cancels
           the runs. Their finished steps are in the database either way, and after a
           `kill -9` too: the next call goes on from there.
"""

import contextlib
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

import anyio

from actorgraph import SqliteSaver
from actorgraph.systems import ThreadResult
from audit.board import Board
from audit.graph import Audit, Tools, build_graph, input_of
from audit.score import Question, Verdict
from audit.targets import Package

# Per thread. A large package must not hold every worker thread while small ones wait.
CONCURRENT_FILES_MAX = 8

Durability = Literal["sync", "async", "exit"]
# None leaves the thread waiting, for as long as it takes.
Answer = Callable[[Question], Verdict | None]


@dataclass(frozen=True, slots=True)
class Job:
    """Packages and settings of an audit."""

    packages: list[Package]
    database: Path
    durability: Durability
    tools: Tools
    board: Board


@dataclass(slots=True)
class Outcome:
    """The progress of an audit.

    Args:
        states: package name -> its thread's last state, if it was reached.
        questions: those without an answer yet.
        finished_before: how many threads had nothing left to do.
        statistics: the saver's own figures.
    """

    states: dict[str, Audit] = field(default_factory=dict[str, Audit])
    questions: list[Question] = field(default_factory=list[Question])
    finished_before: int = 0
    stopped: bool = False
    seconds: float = 0.0
    statistics: object = None


async def audit(job: Job, answer: Answer) -> Outcome:
    """Audit every package, as far as it goes. Call it again to go further."""
    began, outcome = time.perf_counter(), Outcome()
    async with SqliteSaver(job.database) as saver:
        graph = build_graph(job.tools).compile(checkpointer=saver)
        job.board.watch(lambda: _statistics(saver))
        with anyio.CancelScope() as work:
            async with anyio.create_task_group() as background:
                background.start_soon(_stop_at_signal, work)
                background.start_soon(job.board.keep_fresh)
                await _Audits(job, outcome).run(graph, answer)
                background.cancel_scope.cancel()
        outcome.stopped = work.cancelled_caught
        outcome.statistics = _statistics(saver)
    outcome.seconds = time.perf_counter() - began
    return outcome


class _Audits:
    """The batch of all packages, while this process works on it."""

    def __init__(self, job: Job, outcome: Outcome) -> None:
        self._job = job
        self._outcome = outcome
        self._names = {package.thread: package.name for package in job.packages}
        # Measured by runs that have not returned: durable by then, whatever the mode.
        self._measured: dict[str, list[str]] = {}

    async def run(self, graph: Any, answer: Answer) -> None:
        """Run every thread until it is finished, or waits for a verdict that is not there yet."""
        threads = {package.name: package.thread for package in self._job.packages}
        batch = graph.amap_threads(
            [input_of(package) for package in self._job.packages],
            name="audit",
            key=lambda given: threads[given["package"]],
            concurrency=max(1, len(threads)),
            durability=self._job.durability,
            config={"max_concurrency": CONCURRENT_FILES_MAX},
            answer=lambda _, question: answer(question.value),
            stream_mode=["values", "updates", "custom"],
            on_chunk=self._note,
            # A finished package keeps its report, also if it lies in another folder by now.
            changed="keep",
            errors="raise",
        )
        async for result in batch:
            self._end(result)

    def _end(self, result: ThreadResult[Audit]) -> None:
        outcome, name = self._outcome, self._names[result.key]
        state = result.output
        assert state is not None
        outcome.finished_before += (result.status, result.how) == ("done", "skipped")
        outcome.states[name] = state
        outcome.questions += [question.value for question in result.questions]
        self._acknowledge(name, self._measured.pop(name, []))
        self._job.board.progress.finish(name, state)

    def _note(self, key: str, mode: str, chunk: Any) -> None:
        """Count a chunk of one thread."""
        progress, name = self._job.board.progress, self._names[key]
        if mode == "custom":
            progress.parsing = chunk["parsing"]
        elif mode == "values":  # the first one is what a resumed thread had
            progress.resume(name, chunk)
        elif self._job.durability == "sync":  # what this mode delivers is durable already
            self._acknowledge(name, progress.note(name, chunk))
        else:
            self._measured.setdefault(name, []).extend(progress.note(name, chunk))

    def _acknowledge(self, package: str, files: list[str]) -> None:
        for file in files:
            self._job.tools.ledger.acknowledge(package, file)


async def _stop_at_signal(work: anyio.CancelScope) -> None:
    """The first Ctrl-C cancels the runs, which save what they have; a second one does not wait."""
    # Not every platform lets an event loop take signals. There, Ctrl-C raises, as it always did.
    with (
        contextlib.suppress(NotImplementedError),
        anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals,
    ):
        async for _ in signals:
            if work.cancel_called:
                os._exit(130)
            work.cancel()


def _statistics(saver: Any) -> object:
    """The saver's figures; the attributes are read one by one, where they are shown."""
    read = getattr(saver, "statistics", None)
    return cast("object", read()) if read else None
