"""The navigation of the site: a table of sections, and the pages that are there.

A row names a page or a pattern; what isn't there is left out, so a page may come and go without
a change here. A page of `docs/` that no row names is put at the end of the section `REST`.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any

Section = list["str | tuple[str, Section]"]

REST = "Explanation"

TABLE: Section = [
    "index.md",
    ("Tutorial", ["tutorial.md", "installation.md", "tutorial/*"]),
    (
        "How-to guides",
        [
            "how-to/index.md",
            "how-to/*",
            (
                "Examples",
                [
                    "examples/index.md",
                    "examples/*",
                    ("Agents", ["examples/agents/*"]),
                    ("From LangGraph", ["examples/from_langgraph/*"]),
                    ("Many machines", ["examples/many_machines/*"]),
                    ("Audit", ["examples/audit/*"]),
                    "examples/*/*",
                ],
            ),
        ],
    ),
    (
        "Explanation",
        [
            "explanation/index.md",
            "explanation/*",
            (
                "Graphs",
                [
                    "state.md",
                    "runtime.md",
                    "streaming.md",
                    "time-travel.md",
                    "functional.md",
                    "types.md",
                    "drawing.md",
                ],
            ),
            ("Agents", ["prebuilt.md", "stores.md", "sessions.md"]),
            (
                "Storage",
                [
                    "savers.md",
                    "codec.md",
                    "jsonl.md",
                    "inspecting.md",
                    "own-savers.md",
                ],
            ),
            ("Running", ["embedding.md", "batches.md", "scaling.md", "web.md", "studio.md"]),
            ("Inside", ["ARCHITECTURE.md"]),
        ],
    ),
    (
        "Reference",
        [
            "reference/api/index.md",
            ("Modules", ["reference/api/actorgraph.md", "reference/api/*"]),
            "cli.md",
            "errors.md",
            "doctor.md",
            "reference/names.md",
            "reference/langgraph.md",
            "reference/promises.md",
            "reference/*",
            "glossary.md",
        ],
    ),
    (
        "Operations",
        [
            "operations.md",
            "keeping-data.md",
            "observability.md",
            "reliability.md",
            "performance.md",
            "benchmarks.md",
            "security.md",
        ],
    ),
    ("From LangGraph", ["langgraph.md", "migrating.md", "ecosystem.md"]),
    (
        "Project",
        [
            "changelog.md",
            "contributing.md",
            "tests.md",
            ("Decisions", ["decisions/index.md", "decisions/*"]),
        ],
    ),
]
"""Rows are pages, patterns (`*` is anything but a slash), or a title with rows.

 `decisions/index.md` is its README.md."""

TITLES = {
    "index.md": "Home",
    "reference/api/index.md": "Overview",
    "how-to/index.md": "Overview",
    "explanation/index.md": "Overview",
    "examples/index.md": "Examples",
    "decisions/index.md": "All decisions",
    "langgraph.md": "Moving from LangGraph",
    "reference/langgraph.md": "LangGraph, feature by feature",
    "tests.md": "Tests",
}
"""Pages whose title in the navigation isn't their heading."""


PURPOSES = {
    "Tutorial": "ten minutes to a graph that survives `kill -9`",
    "How-to guides": "one task per page, and whole programs",
    "Explanation": "state, streaming, time travel, savers, many machines, how it works inside",
    "Reference": "every public name with its types, the command line, errors, terms",
    "Operations": "running it: limits, backups, logs and figures, guarantees, measurements",
    "From LangGraph": "what is the same, what is better, what to change",
    "Project": "changes, decisions, how to contribute",
}
"""Section -> its sentence on the first page."""


def section_list(pages: Mapping[str, str]) -> str:
    """The sections that have pages, for the first page."""
    lines = []
    for entry in navigation(pages):
        for title, rows in entry.items():
            if title in PURPOSES:
                lines.append(f"- **[{title}]({flat(rows)[0]})**: {PURPOSES[title]}.")
    return "\n".join(lines)


def order(paths: Iterable[str], listed: str = "") -> list[str]:
    """Sort the pages of a pattern: as their folder's index links them, then by name.

    Args:
        listed: the text of the folder's index.
    """
    links = re.findall(r"\]\(([^)#\s]+\.md)", listed)
    place = {name: number for number, name in reversed(list(enumerate(links)))}
    return sorted(paths, key=lambda path: (place.get(PurePosixPath(path).name, len(links)), path))


def navigation(pages: Mapping[str, str]) -> list[dict[str, Any]]:
    """The navigation over pages: their texts by path from the site's root."""
    named = set(_plain_rows(TABLE))
    left = dict.fromkeys(pages)
    made = _rows(TABLE, pages, left, named)
    rest = order(left)
    for entry in made:
        if REST in entry and rest:
            entry[REST].append({"More": [_leaf(path, pages) for path in rest]})
    return made


def flat(entries: Iterable[dict[str, Any]]) -> list[str]:
    """The paths of all pages in a navigation, in its order."""
    found = []
    for entry in entries:
        for value in entry.values():
            found += [value] if isinstance(value, str) else flat(value)
    return found


def heading(text: str) -> str:
    """The first heading of a page, without marks."""
    first = next((line for line in text.splitlines() if line.startswith("# ")), "# Untitled")
    return re.sub(r"\s*\{ *#[^}]*\}$", "", first[2:]).replace("`", "").strip()


def _plain_rows(rows: Section) -> Iterable[str]:
    for row in rows:
        if isinstance(row, str):
            yield row
        else:
            yield from _plain_rows(row[1])


def _rows(
    rows: Section, pages: Mapping[str, str], left: dict[str, None], named: set[str]
) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    for row in rows:
        if isinstance(row, tuple):
            inner = _rows(row[1], pages, left, named)
            if inner:
                made.append({row[0]: inner})
            continue
        for path in _matching(row, pages, left, named):
            del left[path]
            made.append(_leaf(path, pages))
    return made


def _matching(
    row: str, pages: Mapping[str, str], left: dict[str, None], named: set[str]
) -> list[str]:
    if "*" not in row:
        return [row] if row in left else []
    pattern = re.compile(re.escape(row).replace(r"\*", "[^/]*"))
    found = [path for path in left if pattern.fullmatch(path) and path not in named]
    return order(found, pages.get(row.replace("*", "index.md"), ""))


def _leaf(path: str, pages: Mapping[str, str]) -> dict[str, Any]:
    return {TITLES.get(path) or heading(pages[path]): path}
