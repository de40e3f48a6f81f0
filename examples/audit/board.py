"""The live picture in the terminal while the threads run.

Receives   each chunk that a thread streams
Sends      a picture, ten times a second, from a task of the same event loop: no lock needed
Invariant  it only counts. Decisions and reports are read from the threads' states.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

REFRESH_SECONDS = 0.1
NAME_CHARACTERS_MAX = 48


@dataclass(slots=True)
class Progress:
    """Counts of what has happened, over all threads."""

    packages: int
    finished: int = 0
    supersteps: int = 0
    measured_now: int = 0
    parsing: str = ""
    began: float = field(default_factory=time.perf_counter)
    # By package; a thread that was resumed starts with what its state already holds.
    listed: dict[str, int] = field(default_factory=dict[str, int])
    measured: dict[str, int] = field(default_factory=dict[str, int])

    def resume(self, package: str, values: Mapping[str, Any]) -> None:
        """A thread goes on from a stored state, which may be empty."""
        self.listed[package] = len(values.get("files", ()))
        self.measured[package] = len(values.get("measures", ()))

    def note(self, package: str, chunk: Mapping[str, Any]) -> list[str]:
        """Count one `updates` chunk.

        Returns: the files whose measures it carries.
        """
        files = list[str]()
        for node, update in chunk.items():
            match node, update:
                case "measure", {"measures": measures}:
                    files += [measure["file"] for measure in measures]
                    self.measured_now += len(measures)
                    self.measured[package] = self.measured.get(package, 0) + len(measures)
                case "list_files", {"files": listed}:
                    self.listed[package] = len(listed)
                    self.supersteps += 1
                case "rank", _:
                    # It also ends the superstep of all the measuring tasks before it.
                    self.supersteps += 2
                case "review" | "write_report", _:
                    self.supersteps += 1
                case _:  # "__interrupt__": the thread waits
                    pass
        return files

    def finish(self, package: str, values: Mapping[str, Any]) -> None:
        """A thread has nothing left to do now; its state has the last word on its counts."""
        self.finished += 1
        self.resume(package, values)


@dataclass(slots=True)
class Board:
    """The live picture of an audit.

    Args:
        live: False shows nothing; so does a console that isn't a terminal.
    """

    console: Console
    title: str
    progress: Progress
    live: bool
    _read_statistics: Callable[[], object] = field(default=lambda: None)

    def watch(self, read_statistics: Callable[[], object]) -> None:
        """Show what this saver says about its commits."""
        self._read_statistics = read_statistics

    async def keep_fresh(self) -> None:
        """Show the picture until cancelled. The last one stays on the screen."""
        if not (self.live and self.console.is_terminal):
            return
        with Live(console=self.console, auto_refresh=False, get_renderable=self.picture) as live:
            try:
                while True:
                    live.refresh()
                    await anyio.sleep(REFRESH_SECONDS)
            finally:
                self.progress.parsing = ""

    def picture(self) -> RenderableType:
        """The counts as they are now."""
        progress = self.progress
        listed, measured = sum(progress.listed.values()), sum(progress.measured.values())
        seconds = max(0.001, time.perf_counter() - progress.began)
        bars = Table.grid(padding=(0, 2))
        bars.add_row("packages", *_bar(progress.finished, progress.packages))
        bars.add_row("files", *_bar(measured, listed))
        speed = (
            ("supersteps", f"{progress.supersteps:,}"),
            ("a second", f"{progress.supersteps / seconds:,.0f}"),
            ("files a second", f"{progress.measured_now / seconds:,.0f}"),
        )
        saver = batch_figures(self._read_statistics())
        now = Text(progress.parsing[-NAME_CHARACTERS_MAX:], style="dim italic")
        figures = (_figures(line) for line in (speed, saver) if line)
        lines: list[RenderableType] = [bars, Text(), *figures, now]
        return Panel(Group(*lines), title=self.title, border_style="cyan")


def batch_figures(statistics: object) -> list[tuple[str, str]]:
    """Label and figure of what a saver counted; what it does not count is left out."""
    wanted = (
        ("commits", "commits", ",d"),
        ("messages", "messages", ",d"),
        ("messages a commit", "batch_size_mean", ".1f"),
        ("in the largest", "batch_size_max", ",d"),
    )
    figures = list[tuple[str, str]]()
    for label, name, form in wanted:
        value = getattr(statistics, name, None)
        if isinstance(value, int | float):
            figures.append((label, format(value if form == ".1f" else int(value), form)))
    return figures


def _bar(done: int, total: int) -> tuple[RenderableType, Text]:
    bar = ProgressBar(total=max(1, total), completed=done, width=40)
    return bar, Text(f"{done:,} of {total:,}")


def _figures(pairs: Iterable[tuple[str, str]]) -> Text:
    parts = [((text, "bold"), (f" {label}   ", "dim")) for label, text in pairs]
    return Text.assemble(*(part for pair in parts for part in pair), no_wrap=True)
