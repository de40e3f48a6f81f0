"""Generate docs/decisions/README.md, the list of the decisions, from their files."""

from pathlib import Path

from tests.support.source_files import ROOT

FOLDER = ROOT / "docs" / "decisions"
PAGE = FOLDER / "README.md"
INTRODUCTION = """\
# Decisions

One short file per choice that a reader would question: the decision, its reason, and the
alternatives given up. Each number is used once; missing numbers are unused.
`make promises` writes this list.
"""


def files() -> list[Path]:
    """The decisions, by number."""
    return sorted(path for path in FOLDER.glob("*.md") if path != PAGE)


def title(path: Path) -> str:
    """The title after the number in a decision's first line."""
    return path.read_text("utf-8").splitlines()[0].partition(". ")[2]


def current() -> str:
    """The page as it should be."""
    rows = [f"- {int(path.name[:4])}: [{title(path)}]({path.name})" for path in files()]
    return "\n".join([INTRODUCTION, *rows, ""])
