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
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

import anyio

from actorgraph import Command, SqliteSaver
from audit.board import Board, Progress
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


@dataclass(frozen=True, slots=True)
class Go:
    """The next call of a thread's graph, with this input."""

    input: Any


def next_call(package: Package, state: Any, answer: Answer) -> Go | None:
    """Return the next call that a thread needs, from its stored state alone.

    Returns: None when it is finished, or waits for an answer that is not there yet.
    """
    if state.interrupts:
        verdict = answer(state.interrupts[0].value)
        return Go(Command(resume=verdict)) if verdict else None
    if state.next:
        return Go(None)  # it was cut off here: go on, with what the thread has
    if state.values.get("written"):
        return None
    # Not `state.values`: the reducer's empty list may be there before anything has run.
    assert "package" not in state.values, f"thread {package.thread} stopped before its end"
    return Go(input_of(package))


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
                async with anyio.create_task_group() as threads:
                    for package in job.packages:
                        thread = _Thread(job, graph, package, outcome)
                        threads.start_soon(thread.run, answer)
                background.cancel_scope.cancel()
        outcome.stopped = work.cancelled_caught
        outcome.statistics = _statistics(saver)
    outcome.seconds = time.perf_counter() - began
    return outcome


@dataclass(frozen=True, slots=True)
class _Thread:
    """One package's durable thread, while this process works on it."""

    job: Job
    graph: Any
    package: Package
    outcome: Outcome

    async def run(self, answer: Answer) -> None:
        """Call the graph until there is nothing to call it for."""
        config = {
            "configurable": {"thread_id": self.package.thread},
            "max_concurrency": CONCURRENT_FILES_MAX,
        }
        progress = self.job.board.progress
        state = await self.graph.aget_state(config)
        if call := next_call(self.package, state, answer):
            progress.resume(self.package.name, state.values)
        elif not state.interrupts:
            self.outcome.finished_before += 1
        while call:
            await self._stream(call.input, config, progress)
            state = await self.graph.aget_state(config)
            call = next_call(self.package, state, answer)
        self.outcome.states[self.package.name] = state.values
        self.outcome.questions += [interrupt.value for interrupt in state.interrupts]
        progress.finish(self.package.name, state.values)

    async def _stream(
        self, graph_input: Any, config: Mapping[str, Any], progress: Progress
    ) -> None:
        durability, measured = self.job.durability, list[str]()
        stream = self.graph.astream(
            graph_input, config, stream_mode=["updates", "custom"], durability=durability
        )
        async for mode, chunk in stream:
            if mode == "custom":
                progress.parsing = chunk["parsing"]
            else:
                files = progress.note(self.package.name, chunk)
                measured += files
                if durability == "sync":  # what this mode delivers is durable already
                    self._acknowledge(files)
        if durability != "sync":  # in the others, what has returned is
            self._acknowledge(measured)

    def _acknowledge(self, files: list[str]) -> None:
        for file in files:
            self.job.tools.ledger.acknowledge(self.package.name, file)


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
