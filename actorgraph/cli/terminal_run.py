"""Run a graph in a terminal: view it, cancel it by Ctrl-C, and say how to go on."""

import os
import signal
import sys
import warnings
from collections.abc import Sequence
from contextlib import nullcontext, redirect_stdout
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio
import msgspec
from anyio.abc import TaskStatus

from actorgraph.cli.drawn import command, draw_questions, values_table
from actorgraph.cli.exit_codes import DONE, FAILED, INTERRUPTED, CommandError
from actorgraph.cli.live_view import TerminalView
from actorgraph.cli.output import console, error_line, note, print_json, without_password
from actorgraph.cli.printed import OpenQuestion, RunResult
from actorgraph.cli.run_progress import MODES, RunProgress
from actorgraph.cli.thread_reader import place_of, questions_of
from actorgraph.cli.visible_text import visible
from actorgraph.errors import LostPauseWarning
from actorgraph.web.http.jsonable import to_plain

if TYPE_CHECKING:
    from rich.console import Console


class TerminalRequest(msgspec.Struct, frozen=True):
    """A run that was asked for.

    Attributes:
        graph: over its saver; its name as it was given is `graph_name`.
        stored: whether the thread is in a database, so that another command can go on.
        db: the database as it was given; None for the graph's own.
        options: of `astream`.
    """

    graph: Any
    graph_name: str
    thread_id: str
    input: Any
    config: dict[str, Any]
    options: dict[str, Any]
    db: str | None
    stored: bool
    as_json: bool

    def command(self, name: str, *more: str) -> str:
        """Return a command on the same thread, without the password of its database."""
        where = ["--db", without_password(self.db)] if self.db else []
        if name == "run":
            return command("run", self.graph_name, "--thread", self.thread_id, *where, *more)
        graph = ["--graph", self.graph_name]
        return command(name, self.thread_id, *more, *graph, *where)


async def run_in_terminal(asked: TerminalRequest) -> int:
    """Run, show and report; returns the exit code.

    Raises:
        CommandError: the run has failed; its cause is the error of the node.
    """
    names = [name for name in asked.graph.get_graph().nodes if not name.startswith("__")]
    out = console()
    title = visible(f"{asked.graph_name}  thread {asked.thread_id}")
    terminal = TerminalView(out, title, RunProgress.of(names), silent=asked.as_json)
    ending = _Ending()
    with terminal.shown(), redirect_stdout(sys.stderr) if asked.as_json else nullcontext():
        async with anyio.create_task_group() as group:
            # Signals are heard until the run has ended, also while it is being cancelled.
            await group.start(_cancel_on_signal, reading := anyio.CancelScope(), ending)
            with reading:
                await _read(asked, terminal, ending)
            group.cancel_scope.cancel()
    result = await _result(asked, terminal, ending)
    if asked.as_json:
        print_json(result)
    else:
        _report(out, result)
    if ending.error is not None and not asked.as_json:
        do = f"mend the cause, then: {result.go_on}" if result.go_on else "mend the cause"
        raise CommandError(f"the run failed: {result.error}", do=do) from ending.error
    return {"failed": FAILED, "cancelled": INTERRUPTED}.get(result.status, DONE)


@dataclass
class _Ending:
    """The end of a run: its error, or its cancellation."""

    error: Exception | None = None
    cancelled: bool = False
    finished: bool = False


async def _read(asked: TerminalRequest, terminal: TerminalView, ending: _Ending) -> None:
    stream = asked.graph.astream(
        asked.input, asked.config, stream_mode=list(MODES), subgraphs=True, **asked.options
    )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LostPauseWarning)  # `_report` says it, with the option
            async with stream:
                async for namespace, mode, chunk in stream:
                    terminal.take(namespace, mode, chunk)
        ending.finished = True
    except Exception as error:  # noqa: BLE001 - any error of a node: it is reported in one line
        ending.error = error


async def _cancel_on_signal(
    reading: anyio.CancelScope, ending: _Ending, *, task_status: TaskStatus[None]
) -> None:
    """Cancel the run at the first Ctrl-C or SIGTERM; end the process at the second.

    Blocking code of a node can't be cancelled: the run then ends after it, or at the second.
    """
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        task_status.started()
        async for _ in signals:
            if ending.cancelled:
                os._exit(INTERRUPTED)
            ending.cancelled = True
            note("Stopping: finished steps are stored. Ctrl-C again ends at once.")
            reading.cancel()


async def _result(asked: TerminalRequest, terminal: TerminalView, ending: _Ending) -> RunResult:
    view = terminal.view
    questions, next_ = tuple(view.questions.values()), ()
    if asked.stored:
        head = await asked.graph.aget_state(place_of(asked.thread_id))
        questions, next_ = questions_of(head), head.next
    waits = bool(questions or next_)
    status: Any = "waiting" if waits else "done"
    if ending.error is not None:
        status = "failed"
    elif ending.cancelled and not ending.finished:
        status = "cancelled"
    return RunResult(
        asked.thread_id,
        status,
        to_plain(view.output),
        questions,
        view.steps,
        round(terminal.elapsed_s, 3),
        "" if ending.error is None else error_line(ending.error).error,
        _way_on(asked, questions) if waits and asked.stored else "",
    )


def _way_on(asked: TerminalRequest, questions: Sequence[OpenQuestion]) -> str:
    """Return the command that goes on with the thread."""
    if len(questions) == 1:
        return asked.command("resume", "--answer", "JSON")
    answers = [word for one in questions for word in ("--answer", f"{one.id}=JSON")]
    return asked.command("resume", *answers)


def _report(out: "Console", result: RunResult) -> None:
    """Print the result below the view."""
    from rich.text import Text

    if result.status == "done":
        out.print(Text.assemble("\n", ("done", "green"), f" in {result.duration_s:.2f} s"))
        out.print(values_table(result.output))
    elif result.status == "cancelled":
        out.print(Text.assemble("\n", ("stopped", "magenta"), "; finished steps are stored"))
    elif result.status == "waiting":
        draw_questions(out, result.questions)
        if not result.questions:
            out.print(Text.assemble("\n", ("paused", "yellow"), " at a breakpoint"))
    if result.go_on and result.status != "failed":
        verb = "Answer" if result.questions else "Go on"
        out.print(f"\n{verb}:\n  {result.go_on}", soft_wrap=True)
    elif result.status in ("waiting", "cancelled"):
        out.print("\nThe thread isn't stored: add --db runs.db to go on later.")
