"""The main report as one HTML file that needs nothing else: no network, no other file.

Invariant  every name that comes from outside goes through `escape`; what differs from run to
           run is between RUN_BEGIN and RUN_END.
"""

from collections.abc import Iterable
from html import escape
from urllib.parse import quote

from audit.chart import risk_chart
from audit.markdown import RUN_BEGIN, RUN_END, STANDING_WORDS, RunFacts
from audit.measure import BRANCHES_MAX, LINES_MAX, NESTING_MAX
from audit.score import RISK_THRESHOLD
from audit.style import CSS, SCRIPT
from audit.summary import AuditedPackage, Overview, undocumented_share

ABOUT = (
    f"A function past a limit has more than {LINES_MAX} lines, more than {BRANCHES_MAX} branches,"
    f" or nests deeper than {NESTING_MAX}. A package's risk, of 100, comes from the share of its"
    " lines in such functions, its branches, and its missing docstrings."
)


def html_report(overview: Overview, run: RunFacts) -> str:
    """The whole page."""
    parts = [
        "<!doctype html>",
        '<html lang="en">',
        '<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(overview.title)}</title>",
        f"<style>{CSS}</style>",
        f"<main>\n<h1>{escape(overview.title)}</h1>",
        f"<p>{ABOUT}</p>",
        _tiles(overview),
        _chart_section(overview),
        _reviews(overview),
        _hot_spots(overview),
        _packages(overview),
        _problems(overview),
        RUN_BEGIN,
        _run_section(run),
        RUN_END,
        f"</main>\n<script>{SCRIPT}</script>\n</html>",
    ]
    return "\n".join(part for part in parts if part) + "\n"


def _tiles(overview: Overview) -> str:
    totals = overview.totals
    tiles = (
        (f"{len(overview.packages):,}", "packages"),
        (f"{totals['files']:,}", "files"),
        (f"{totals['lines']:,}", "lines"),
        (f"{totals['functions']:,}", "functions"),
        (f"{overview.hot_functions:,}", "past a limit"),
        (f"{undocumented_share(totals):.0%}", "names undocumented"),
        (f"{len(overview.reviewed):,}", "packages reviewed"),
    )
    inner = "\n".join(
        f'<div class="tile"><b>{figure}</b><span>{label}</span></div>' for figure, label in tiles
    )
    return f'<div class="tiles">\n{inner}\n</div>'


def _chart_section(overview: Overview) -> str:
    words = {**STANDING_WORDS, "below": f"risk below {RISK_THRESHOLD:g}"}
    legend = " ".join(
        f'<span><i class="mark {standing}"></i>{words[standing]} ({count:,})</span>'
        for standing, count in overview.standings.items()
        if count
    )
    return _section(
        "Risk and size",
        "Each dot is a package; its area grows with the number of functions past a limit.",
        f'<div class="legend">{legend}</div>\n{risk_chart(overview)}',
    )


def _reviews(overview: Overview) -> str:
    if not overview.reviewed:
        return ""
    rows = (
        [
            _text(_link(package)),
            _number(f"{package.ranking['risk']:.1f}"),
            _text(_verdict(package)),
            _text(escape(package.verdict["by"]) if package.verdict else ""),
            _text(_worst_place(package)),
        ]
        for package in overview.reviewed
    )
    return _section(
        "Reviewed",
        f"Packages with a risk of {RISK_THRESHOLD:g} or more waited for a verdict.",
        _table(["Package", "Risk:", "Verdict", "By", "Its worst function"], rows),
    )


def _hot_spots(overview: Overview) -> str:
    rows = (
        [
            _text(
                f"<code>{escape(spot['name'])}</code> <code class='place'>"
                f"{escape(spot['file'])}:{spot['line']}</code>"
            ),
            _number(str(spot["lines"])),
            _number(str(spot["branches"])),
            _number(str(spot["nesting"])),
            _number(f"{spot['score']:.1f}"),
        ]
        for spot in overview.hot_spots
    )
    heads = ["Function", "Lines:", "Branches:", "Nesting:", "Score:"]
    about = "The score adds up lines, branches and nesting, each as a multiple of its limit."
    return _section("Hot spots", about, _table(heads, rows)) if overview.hot_spots else ""


def _packages(overview: Overview) -> str:
    heads = ["Package", "Risk:", "Files:", "Code:", "Functions:", "Past a limit:"]
    heads += ["Branches/100:", "No docstring:", "Verdict"]
    table = _table(heads, map(_package_cells, overview.packages), "packages")
    search = '<input id="filter" type="search" placeholder="Filter by name" aria-label="Filter">'
    return _section("Packages", "Click a head to sort.", f"{search}\n{table}")


def _package_cells(package: AuditedPackage) -> list[str]:
    ranking = package.ranking
    risk = ranking["risk"]
    bar = f'{risk:.1f}<span class="risk"><i style="width:{risk:.0f}%"></i></span>'
    return [
        _text(_link(package)),
        _number(bar, risk),
        _number(f"{ranking['totals']['files']:,}", ranking["totals"]["files"]),
        _number(f"{ranking['totals']['code']:,}", ranking["totals"]["code"]),
        _number(f"{ranking['totals']['functions']:,}", ranking["totals"]["functions"]),
        _number(f"{ranking['hot_functions']:,}", ranking["hot_functions"]),
        _number(f"{ranking['branches_per_100']:.1f}"),
        _number(f"{ranking['undocumented_share']:.0%}"),
        _text(_verdict(package)),
    ]


def _problems(overview: Overview) -> str:
    if not overview.problems:
        return ""
    rows = (
        [_text(f"<code>{escape(item['file'])}</code>"), _text(escape(item["problem"]))]
        for item in overview.problems
    )
    about = "These files are counted, and otherwise left out."
    return _section("Not measured", about, _table(["File", "Problem"], rows))


def _run_section(run: RunFacts) -> str:
    rows = ([_text(escape(label)), _text(escape(fact))] for label, fact in run)
    about = "Only this part differs when the same sources are audited again."
    return _section("This run", about, f'<div class="run">{_table([], rows)}</div>')


def _section(title: str, about: str, inner: str) -> str:
    return f"<section>\n<h2>{title}</h2>\n<p>{about}</p>\n{inner}\n</section>"


def _table(heads: list[str], rows: Iterable[list[str]], name: str = "") -> str:
    """A table; a head that ends in ":" is over a column of numbers."""
    cells = "".join(
        f'<th class="number">{head[:-1]}</th>' if head.endswith(":") else f"<th>{head}</th>"
        for head in heads
    )
    head = f"<thead><tr>{cells}</tr></thead>" if heads else ""
    body = "\n".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    opening = f'<table id="{name}">' if name else "<table>"
    return f"{opening}{head}<tbody>\n{body}\n</tbody></table>"


def _text(inner: str) -> str:
    return f"<td>{inner}</td>"


def _number(inner: str, sort_value: float | None = None) -> str:
    """A cell of a column of numbers; `sort_value` where the text itself would sort wrong."""
    value = "" if sort_value is None else f' data-value="{sort_value}"'
    return f'<td class="number"{value}>{inner}</td>'


def _link(package: AuditedPackage) -> str:
    return f'<a href="{quote(package.report)}">{escape(package.name)}</a>'


def _verdict(package: AuditedPackage) -> str:
    if package.standing == "below":
        return ""
    return f'<i class="mark {package.standing}"></i>{STANDING_WORDS[package.standing]}'


def _worst_place(package: AuditedPackage) -> str:
    spots = package.ranking["hot_spots"]
    if not spots:
        return ""
    file, name = escape(spots[0]["file"]), escape(spots[0]["name"])
    return f"<code class='place'>{file}</code> <code>{name}</code>"
