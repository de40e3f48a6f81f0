"""The bar of a batch in the terminal, drawn by rich; loaded only for `progress=True`."""

from actorgraph.api.batches.batch_results import how_to_go_on
from actorgraph.errors import MissingExtraError
from actorgraph.rules.thread_batches import BatchCounts

try:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
except ImportError:
    raise MissingExtraError(
        "progress=True draws with rich, which is not installed",
        do="pip install 'actorgraph[progress]', or pass a function that gets the counts",
    ) from None


class ProgressBar:
    """One line that follows the counts of a batch. Written to standard error.

    Where that isn't a terminal, only the last line is written.
    """

    def __init__(self, counts: BatchCounts, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False)
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[figures]}", markup=False),
            console=self._console,
        )
        self._task = self._bar.add_task(counts.name, total=counts.total, figures="")
        self._bar.start()

    def show(self, counts: BatchCounts) -> None:
        """Show these counts at the next drawing."""
        self._bar.update(
            self._task, completed=counts.ended, total=counts.total, figures=figures_of(counts)
        )

    def close(self, counts: BatchCounts, *, whole: bool) -> None:
        """Leave the last picture on the screen.

        Args:
            whole: whether every input has its result; else a line says how to go on.
        """
        self.show(counts)
        self._bar.stop()
        if not whole:
            self._console.print(how_to_go_on(counts), style="yellow", markup=False, soft_wrap=True)


def figures_of(counts: BatchCounts) -> str:
    """The figures beside the bar."""
    total = "" if counts.total is None else f"/{counts.total:,}"
    parts = [f"{counts.done:,}{total} done"]
    named = {
        "failed": counts.failed,
        "waiting": counts.waiting,
        "skipped": counts.skipped,
        "running": counts.running,
    }
    parts += [f"{number:,} {name}" for name, number in named.items() if number]
    if counts.rate > 0:
        parts.append(f"{counts.rate:,.1f}/s")
    if counts.eta_s:
        parts.append(f"{_clock(counts.eta_s)} left")
    return ", ".join(parts)


def _clock(seconds: float) -> str:
    whole = int(seconds + 0.5)
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
