"""Write the measured figures where they are read: README.md, docs/benchmarks.md and its charts.

    python -m tests.bench --json docs/benchmarks.json    # measure; minutes to hours
    python -m tests.bench.pages                          # `make figures`
    python -m tests.bench.pages --charts                 # `make charts`: the pictures only

A page has a place between two comments, and all between them is replaced.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from tests.bench import catalogue, charts, goal_rows, report, rival, token_figures
from tests.bench.catalogue import PEERS, RIVAL, SUBJECT, Against, Comparison, Group, Unit
from tests.bench.runner import Outcome

FIGURES = rival.ROOT / "docs" / "benchmarks.json"
README = rival.ROOT / "README.md"
PAGE = rival.ROOT / "docs" / "benchmarks.md"
TOKENS_CHART = "benchmarks-tokens.svg"
CHARTS = {
    "benchmarks-threads.svg": charts.threads_chart,
    "benchmarks-bytes.svg": charts.bytes_chart,
    TOKENS_CHART: charts.tokens_chart,
}
BEGIN, END = "<!-- figures: written by `make figures` -->", "<!-- end of figures -->"

ROWS = {
    "invoke": "`invoke`, plain functions",
    "invoke-sqlite": "the same, SQLite FULL, `sync`",
    "stream": "`stream`, plain functions",
    "loop": "`ainvoke`, async functions",
    "threads-sync": "1,000 threads x 10 steps, SQLite FULL, `sync`",
    "fan-out": "fan-out of 1,000",
    "chat-bytes": "400-turn chat on disk",
}
"""The measures of the README's table and the labels of their rows."""

TOKENS_ROW = "a model's token to 200 browsers at once, the server's CPU"


class NoFigures(Exception):
    """There is nothing to write; the text says what to do."""


def load(path: Path) -> dict[str, Any]:
    """The figures of a full measurement.

    Raises: NoFigures, if the file is missing, or has figures of a quick measurement.
    """
    if not path.exists():
        raise NoFigures(f"no figures yet: make bench ARGS='--json {path.name}' writes them")
    document = json.loads(path.read_text(encoding="utf-8"))
    if document["quick"]:
        raise NoFigures(f"{path.name} is of `--quick`, which is too small to judge by")
    return document


def load_tokens(path: Path) -> dict[str, Any]:
    """The figures of tokens in such a file.

    Raises: NoFigures, if it has none, or those of a quick measurement.
    """
    command = f"make bench ARGS='--only tokens --json {path.name}'"
    document = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if "tokens" not in document:
        raise NoFigures(f"no figures of tokens yet: {command} writes them")
    if document["tokens"]["settings"]["quick"]:
        raise NoFigures(
            f"the tokens of {path.name} are of `--quick`, which is too small to judge by"
        )
    return document["tokens"]


def save(path: Path, document: dict[str, Any]) -> None:
    """Write figures, a line per measure."""
    lines = ",\n".join(json.dumps(measure) for measure in document["measures"])
    head = f'"quick": {json.dumps(document["quick"])},\n'
    head += f'"facts": {json.dumps(document["facts"], indent=1)}'
    tail = f',\n"tokens": {_lines_of_tokens(document["tokens"])}' if "tokens" in document else ""
    path.write_text(f'{{{head},\n"measures": [\n{lines}\n]{tail}}}\n', encoding="utf-8")


def save_tokens(path: Path, tokens: dict[str, Any]) -> None:
    """Write the figures of tokens into a file, beside the measures that it has."""
    empty = {"quick": tokens["settings"]["quick"], "facts": tokens["facts"], "measures": []}
    document = json.loads(path.read_text(encoding="utf-8")) if path.exists() else empty
    save(path, {**document, "tokens": tokens})


def _lines_of_tokens(tokens: dict[str, Any]) -> str:
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in tokens.items()]
    return "{\n" + ",\n".join(lines) + "\n}"


def outcomes_of(document: dict[str, Any]) -> list[Outcome]:
    """The outcomes of the measures that the catalogue still has, in its order."""
    stored = {each["name"]: each for each in document["measures"]}
    known = [measure for measure in catalogue.MEASURES if measure.name in stored]
    return [
        Outcome(measure, stored[measure.name]["runs"], stored[measure.name]["failures"])
        for measure in known
    ]


def filled(text: str, inside: str) -> str:
    """A page with its place filled anew."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert begin, BEGIN
    assert end, END
    return f"{before}{BEGIN}\n\n{inside}\n\n{END}{after}"


def readme_part(document: dict[str, Any]) -> str:
    """The README's table: what people write first, many threads, and tokens to browsers."""
    outcomes = {outcome.measure.name: outcome for outcome in outcomes_of(document)}
    facts = document["facts"]
    version = next((each for each in facts["libraries"] if each.startswith("langgraph ")), "")
    python = ".".join(facts["python"].split(".")[:2])
    head = (
        f"Compared with {version.replace('langgraph', 'LangGraph')} on the same machine "
        f"({facts['cores']} cores, CPython {python}, medians; `make bench`):"
    )
    rows = [row(outcomes[name], label) for name, label in ROWS.items() if name in outcomes]
    if "tokens" in document:
        rows.append(_tokens_row(document["tokens"]))
    return "\n".join([head, "", *report.table(["", "actorgraph", "LangGraph", ""], rows)])


def row(outcome: Outcome, label: str) -> list[str]:
    """One line of the README's table."""
    unit = outcome.measure.unit
    ours, theirs = outcome.figure(SUBJECT), outcome.figure(RIVAL)
    number = report.ratio(outcome, Comparison(Against.RIVAL))
    # The unit stands once: the table is narrow.
    other = report.shown(theirs, unit).removesuffix(f" {unit.value}")
    if unit is Unit.MULTIPLE:
        return [label, report.shown(ours, unit), other, ""]
    return [label, report.shown(ours, unit), other, report.shown_ratio(number, Against.RIVAL)]


def _tokens_row(tokens: dict[str, Any]) -> list[str]:
    ours, theirs = (
        token_figures.median(tokens, "messages", side, "cpu_us") for side in (SUBJECT, RIVAL)
    )
    number = theirs / ours if ours and theirs else None
    unit = Unit.MICROSECONDS
    other = report.shown(theirs, unit).removesuffix(f" {unit.value}")
    return [TOKENS_ROW, report.shown(ours, unit), other, report.shown_ratio(number, Against.RIVAL)]


def page_part(document: dict[str, Any]) -> str:
    """The figures of docs/benchmarks.md: facts, tables, charts."""
    outcomes = outcomes_of(document)
    shown = [each for each in outcomes if each.measure.group is not Group.CHARTS]
    lines = [f"- {name}: {report.flat(value)}" for name, value in document["facts"].items()]
    lines += ["", *report.comparison_table(shown), ""]
    if report.others_table(shown):
        names = ", ".join(report.SIDES[side] for side in PEERS)
        lines += ["### Beside other libraries", "", OTHERS_TEXT.format(names=names), ""]
        lines += [*report.others_table(shown), ""]
    for name, made in _charts(document).items():
        if name != TOKENS_CHART:
            lines += [f"![{made.title}, against {made.x_label}]({name})", ""]
    if "tokens" in document:
        lines += ["### Tokens to clients", "", *tokens_part(document), ""]
    lines += ["### Details", ""]
    if report.single_table(shown):
        lines += [*report.single_table(shown), ""]
    lines += [note for outcome in shown for note in report.notes(outcome)]
    return "\n".join(lines)


def tokens_part(document: dict[str, Any]) -> list[str]:
    """The figures of tokens that go to many clients, their goals and their chart."""
    tokens = document["tokens"]
    chart = charts.tokens_chart(tokens["curve"])
    goals = goal_rows.rows(token_figures.GOALS, token_figures.numbers(tokens))
    lines = [*token_figures.figures_table(tokens), "", *report.table(goal_rows.HEADER, [*goals])]
    if chart.curves:
        lines += ["", f"![{chart.title}, against {chart.x_label}]({TOKENS_CHART})"]
    return lines


OTHERS_TEXT = """\
A loop of 1,000 steps that counts, in {names}, each as its documentation writes it and with its
defaults (`tests/bench/peers.py`). A dash: the library has no such calls or no such storage. On
SQLite each step is committed; actorgraph uses WAL and `synchronous=FULL`, Burr and DBOS the
rollback journal that is SQLite's default."""


def drawn(document: dict[str, Any]) -> dict[str, str]:
    """The charts that have figures: file name -> SVG."""
    return {name: charts.draw(chart) for name, chart in _charts(document).items()}


def _charts(document: dict[str, Any]) -> dict[str, charts.Chart]:
    """The charts that have points, by file name."""
    measures = [*document["measures"], *document.get("tokens", {}).get("curve", [])]
    made = {name: chart(measures) for name, chart in CHARTS.items()}
    return {name: chart for name, chart in made.items() if chart.curves}


def main() -> int:
    """Write what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.pages", description=__doc__)
    parser.add_argument("figures", nargs="?", type=Path, default=FIGURES)
    parser.add_argument("--charts", action="store_true", help="the pictures only")
    options = parser.parse_args()
    try:
        document = load(options.figures)
    except NoFigures as reason:
        print(reason, file=sys.stderr)
        return 1
    for name, picture in drawn(document).items():
        PAGE.with_name(name).write_text(picture, encoding="utf-8")
    if not options.charts:
        for path, part in ((README, readme_part), (PAGE, page_part)):
            text = filled(path.read_text(encoding="utf-8"), part(document))
            path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
