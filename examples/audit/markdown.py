"""The reports as Markdown: one per package, and the main one.

Invariant  what differs from run to run is between RUN_BEGIN and RUN_END and nowhere else.
"""

import re
from collections.abc import Iterable, Sequence

from audit.score import RISK_THRESHOLD, HotSpot, reasons
from audit.summary import AuditedPackage, Overview, undocumented_share

RUN_BEGIN, RUN_END = "<!-- run: begin -->", "<!-- run: end -->"

STANDING_WORDS = {
    "waiting": "waits for a verdict",
    "split": "split it",
    "document": "document it",
    "watch": "watch it",
    "accept": "accepted",
    "below": "",
}

# Label and value, in the order in which they are shown.
RunFacts = Sequence[tuple[str, str]]


def strip_run_section(text: str) -> str:
    """A report without what differs from run to run; Markdown and HTML alike."""
    return re.sub(f"{RUN_BEGIN}.*?{RUN_END}", "", text, flags=re.DOTALL)


def package_report(package: AuditedPackage) -> str:
    """The report that the last node of a package's thread writes."""
    ranking = package.ranking
    return _document(
        f"# {package.name}",
        f"Risk **{ranking['risk']:g}** of 100, because",
        [f"- {reason}" for reason in reasons(ranking)],
        _verdict_line(package),
        "## Hot spots" if ranking["hot_spots"] else "",
        _spot_table(ranking["hot_spots"]),
        "## Longest functions" if ranking["longest"] else "",
        _spot_table(ranking["longest"]),
        "## Files",
        _table(
            ["File", "Lines:", "Functions:", "Branches:", "Nesting:", "No docstring:", ""],
            (
                [
                    _code(file["file"]),
                    f"{file['lines']:,}",
                    f"{file['functions']:,}",
                    f"{file['branches']:,}",
                    str(file["nesting"]),
                    f"{file['undocumented']:,} of {file['public']:,}",
                    _cell(file["problem"]),
                ]
                for file in sorted(package.measures, key=lambda file: file["file"])
            ),
        ),
    )


def main_report(overview: Overview, run: RunFacts) -> str:
    """The report about all packages."""
    totals = overview.totals
    return _document(
        f"# {overview.title}",
        f"{len(overview.packages):,} packages, {totals['files']:,} files,"
        f" {totals['lines']:,} lines, {totals['functions']:,} functions."
        f" {overview.hot_functions:,} functions are past a limit;"
        f" {undocumented_share(totals):.0%} of the public names have no docstring.",
        f"## Reviewed: {len(overview.reviewed):,} packages with a risk of {RISK_THRESHOLD:g}"
        " or more",
        _table(
            ["Package", "Risk:", "Verdict", "By"],
            (
                [
                    _link(package),
                    f"{package.ranking['risk']:.1f}",
                    STANDING_WORDS[package.standing],
                    package.verdict["by"] if package.verdict else "",
                ]
                for package in overview.reviewed
            ),
        ),
        "## Hot spots",
        _spot_table(overview.hot_spots),
        "## Packages",
        _package_table(overview.packages),
        "## Not measured" if overview.problems else "",
        _table(
            ["File", "Problem"],
            ([_code(problem["file"]), _cell(problem["problem"])] for problem in overview.problems),
        ),
        [RUN_BEGIN, "## This run", "", *_table(["", ""], run), RUN_END],
    )


def _package_table(packages: Iterable[AuditedPackage]) -> list[str]:
    columns = ("Risk", "Files", "Code", "Functions", "Past a limit", "Branches/100", "No docstring")
    return _table(
        ["Package", *(f"{column}:" for column in columns)],
        (
            [
                _link(package),
                f"{package.ranking['risk']:.1f}",
                f"{package.ranking['totals']['files']:,}",
                f"{package.ranking['totals']['code']:,}",
                f"{package.ranking['totals']['functions']:,}",
                f"{package.ranking['hot_functions']:,}",
                f"{package.ranking['branches_per_100']:.1f}",
                f"{package.ranking['undocumented_share']:.0%}",
            ]
            for package in packages
        ),
    )


def _verdict_line(package: AuditedPackage) -> str:
    if package.verdict is None:
        return f"Not reviewed: the risk is below {RISK_THRESHOLD:g}."
    return f"Verdict: **{STANDING_WORDS[package.standing]}** (by {package.verdict['by']})."


def _spot_table(spots: Iterable[HotSpot]) -> list[str]:
    return _table(
        ["Function", "File", "Lines:", "Branches:", "Nesting:", "Score:"],
        (
            [
                _code(spot["name"]),
                _code(f"{spot['file']}:{spot['line']}"),
                str(spot["lines"]),
                str(spot["branches"]),
                str(spot["nesting"]),
                f"{spot['score']:.1f}",
            ]
            for spot in spots
        ),
    )


def _document(*parts: str | list[str]) -> str:
    """Join the parts that say something, with a blank line between two."""
    texts = (part if isinstance(part, str) else "\n".join(part) for part in parts)
    return "\n\n".join(text for text in texts if text) + "\n"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table; a head that ends in ":" is a column of numbers. Empty without rows."""
    lines = [_row(row) for row in rows]
    if not lines:
        return []
    rule = _row(["--:" if head.endswith(":") else "---" for head in heads])
    return [_row([head.removesuffix(":") for head in heads]), rule, *lines]


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _code(text: str) -> str:
    quoted = _cell(text).replace("`", "'")
    return f"`{quoted}`"


def _link(package: AuditedPackage) -> str:
    return f"[{_cell(package.name)}]({package.report.replace(' ', '%20')})"
