"""Report of the names of `langgraph` that a program asked for, ours and missing ones."""

import inspect
from dataclasses import dataclass
from pathlib import Path

_ASKED: dict[str, "NameReport"] = {}


@dataclass(frozen=True, slots=True)
class NameReport:
    """One name that was asked for.

    Attributes:
        module: e.g. "langgraph.types".
        name: e.g. "Command"; "" for the module itself.
        home: its dotted name here; "" if it is missing.
        place: file and line that asked first.
    """

    module: str
    name: str
    home: str
    place: str

    @property
    def missing(self) -> bool:
        """Whether it has no equivalent here."""
        return not self.home


def note(module: str, name: str, home: str) -> None:
    """Remember that a name was asked for; only the first time counts."""
    # Python asks a package for a name, and then imports a module of that name: one thing.
    key = f"{module}.{name}" if name else module
    if key not in _ASKED:
        _ASKED[key] = NameReport(module, name, home, _place())


def report() -> tuple[NameReport, ...]:
    """List the names of `langgraph` that were asked for, missing ones first."""
    return tuple(sorted(_ASKED.values(), key=lambda asked: (asked.home != "", asked.module)))


def text_of(asked: tuple[NameReport, ...]) -> str:
    """Write a report as lines of text."""
    lines = [
        f"missing  {one.module}{'.' if one.name else ''}{one.name}  ({one.place})"
        for one in asked
        if one.missing
    ]
    ours = sum(not one.missing for one in asked)
    return "\n".join([*lines, f"{ours} names from actorgraph, {len(lines)} missing"])


def _place() -> str:
    """Name the code that asked: the nearest frame outside of imports and of this package."""
    frame = inspect.currentframe()
    here = str(Path(__file__).parent)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith((here, "<frozen importlib", "<frozen runpy")):
            return f"{file}:{frame.f_lineno}"
        frame = frame.f_back
    return ""
