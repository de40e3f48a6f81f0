"""The live view of a run in a terminal, and its plain lines where stdout is none."""

import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from actorgraph.cli.drawn import add_rows, styled
from actorgraph.cli.run_progress import NodeView, RunProgress
from actorgraph.cli.visible_text import visible
from actorgraph.internals import Namespace

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live

REFRESH_PER_S = 10
MESSAGE_LINES = 6
MESSAGES_MAX = 3
SYMBOLS = {"": " ", "queued": ".", "running": ">", "done": "+", "failed": "x", "waiting": "?"}


class TerminalView:
    """Shows a run while it goes.

    Args:
        out: where to; a terminal gets the live view, anything else lines.
        title: of the view: the graph and the thread.
        silent: show nothing, because the result is printed as JSON.
    """

    def __init__(
        self, out: "Console", title: str, view: RunProgress, *, silent: bool = False
    ) -> None:
        self.view = view
        self._out, self._title, self._silent = out, title, silent
        self._live: Live | None = None
        self._began = time.monotonic()

    @contextmanager
    def shown(self) -> Generator[None]:
        """Show the run while the body runs."""
        if self._silent or not self._out.is_terminal:
            if not self._silent:
                self._out.print(self._title, soft_wrap=True)
            yield
            self._print(self.view.end())
            return
        from rich.live import Live

        with Live(
            get_renderable=self.drawn,
            console=self._out,
            refresh_per_second=REFRESH_PER_S,
        ) as self._live:
            yield
            self.view.end()
            self._live.refresh()

    def take(self, namespace: Namespace, mode: str, chunk: Any) -> None:
        """Fold one chunk, and show it."""
        lines = self.view.take(namespace, mode, chunk, time.monotonic())
        if self._live is None and not self._silent:
            self._print(lines)

    def _print(self, lines: list[str]) -> None:
        for line in lines:
            self._out.print(f"{time.monotonic() - self._began:7.2f}  {line}", soft_wrap=True)

    @property
    def elapsed_s(self) -> float:
        """Seconds since the run began."""
        return time.monotonic() - self._began

    def drawn(self) -> "RenderableType":
        """Draw the view as it is now."""
        return drawn_run(self.view, self._title, time.monotonic(), self.elapsed_s, self._out.width)


def drawn_run(
    view: RunProgress, title: str, now: float, elapsed_s: float, width: int
) -> "RenderableType":
    """Draw a run: a row for each node, and the ends of the newest messages.

    Args:
        now: on the clock of `RunProgress.take`.
        elapsed_s: seconds since the run began.
        width: of the terminal, in columns.
    """
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    steps = "step" if view.steps == 1 else "steps"
    head = Text.assemble((title, "bold"), f"   {view.steps} {steps}   {elapsed_s:.1f} s")
    table = Table.grid(padding=(0, 2))
    for style in ("", "bold", "", "dim"):
        table.add_column(style=style, no_wrap=True)
    table.add_column(no_wrap=True, overflow="ellipsis")
    rows: list[tuple[Any, ...]] = []
    for node in view.nodes.values():
        calls = f"x{node.calls}" if node.calls > 1 else ""
        status = styled(node.state)
        symbol = Text(SYMBOLS[node.state], style=status.style)
        note = f"{calls} {node.note}".strip()
        rows.append((symbol, node.name, status, _time_of(node, now), note))
    add_rows(table, rows, width)
    parts: list[Any] = [head, table]
    for author, message in list(view.messages.items())[-MESSAGES_MAX:]:
        lines = "\n".join(map(visible, message.splitlines()[-MESSAGE_LINES:]))
        parts.append(Text.assemble("\n", (f"{author}: ", "cyan"), lines))
    return Group(*parts)


def _time_of(node: NodeView, now: float) -> str:
    took = node.took_s + (now - node.began if node.running else 0)
    return f"{took:.2f} s" if node.calls or node.running else ""
