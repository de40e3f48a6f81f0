"""SafeConsole: rich's console, through which no text can steer the terminal."""

from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.segment import Segment

from actorgraph.cli.visible_text import visible


class SafeConsole(Console):
    """Replaces control characters in every text; styles and cursor moves of rich itself stay."""

    def render(self, renderable: Any, options: Any = None) -> Iterable[Segment]:
        """Render as rich does; see `rich.console.Console.render`."""
        for segment in super().render(renderable, options):
            text, style, control = segment
            yield segment if control else Segment(visible(text), style)
