"""An index for language models: `llms.txt`, `llms-full.txt`, and each page as Markdown."""

import re
from pathlib import Path
from typing import Any

from tests.support.site.navigation import flat, heading, navigation

HEAD = """\
# actorgraph

> Durable graphs over shared state: a program declares nodes and edges, actorgraph runs thousands of
> resumable threads of that graph in one process, on asyncio and trio. Its names are LangGraph's.

Each page is here as Markdown. `llms-full.txt` has the guides in one file.
"""
LEFT_OUT = (
    "decisions/",
    "reference/",
    "tests.md",
    "contributing.md",
    "changelog.md",
    "benchmarks.md",
)
"""Pages that `llms-full.txt` does without."""

FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
ANCHOR = re.compile(r" \{ #[^}]*\}$", re.MULTILINE)
TYPE = re.compile(r"<span class=ag-type><code>(.*?)</code></span>")


def plain(text: str) -> str:
    """A page without what only the site's generator reads."""
    return ANCHOR.sub("", TYPE.sub(r"(\1)", text))


def first_sentence(text: str) -> str:
    """The first sentence of prose of a page."""
    for block in FENCED.sub("", text).split("\n\n"):
        words = " ".join(block.split())
        if words and words[0] not in "#`|<-!>":
            return re.split(r"(?<=[.])\s(?=[A-Z`])", words)[0]
    return ""


def indexes(pages: dict[str, str]) -> dict[str, str]:
    """Name of a file -> its text: the list of pages, and the guides as one text."""
    lines = [HEAD]
    entries = navigation(pages)
    for entry in entries:
        for title, value in entry.items():
            lines += [f"## {title}", "", *_rows(value, pages), ""]
    long = [path for path in flat(entries) if not path.startswith(LEFT_OUT)]
    texts = [plain(pages[path]).strip() for path in long]
    full = "\n\n---\n\n".join(texts) + "\n"
    return {"llms.txt": "\n".join(lines), "llms-full.txt": full}


def write_pages(folder: Path, pages: dict[str, str]) -> None:
    """Write each page as Markdown beside its HTML."""
    for path, text in pages.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(plain(text), "utf-8")


def _rows(value: Any, pages: dict[str, str]) -> list[str]:
    paths = [value] if isinstance(value, str) else flat(value)
    return [_row(path, pages[path]) for path in paths]


def _row(path: str, text: str) -> str:
    sentence = first_sentence(plain(text))
    return f"- [{heading(text)}]({path})" + (f": {sentence}" if sentence else "")
