"""Write the tables of docs/reference/langgraph.md: what is here, and which tests show it.

The words come from langgraph.toml beside this file, the tests from `@pytest.mark.langgraph("F-C9")`
on a test, a class or a file, the names from the codemod's table. The page's own text stays as it
is: a table is between `<!-- table: NAME -->` and `<!-- end -->`.
"""

import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from actorgraph.cli.codemod import exists
from actorgraph.cli.name_map import NAMES
from tests.support.promises import Subject, arguments_of, collect, numbers_of
from tests.support.source_files import ROOT, sources

PAGE = ROOT / "docs" / "reference" / "langgraph.md"
ROW = re.compile(r"F-[A-Z]\d+|L\d+")
PLACE = re.compile(r"<!-- table: (\w+) -->\n.*?<!-- end -->", re.DOTALL)


def words() -> dict[str, Any]:
    """langgraph.toml: features and rules by section; better, left, different by id."""
    return tomllib.loads(Path(__file__).with_name("langgraph.toml").read_text("utf-8"))


def rows_of(subject: Subject) -> list[str]:
    """The rows that a test, class or file shows, also the rules among its promises.

    Raises: ValueError when an argument of the marker `langgraph` isn't a string such as "F-C9".
    """
    rows = arguments_of(subject, "langgraph")
    if wrong := [row for row in rows if not ROW.fullmatch(row)]:
        raise ValueError(f"not a row of LangGraph's features or rules: {', '.join(wrong)}")
    return rows + [number for number in numbers_of(subject) if ROW.fullmatch(number)]


def shown() -> dict[str, list[str]]:
    """Row -> the tests that show it."""
    return collect(sources("tests"), rows_of)


def known(data: Mapping[str, Any]) -> list[str]:
    """Every row of the data file, in order."""
    return [i for kind in ("features", "rules") for s in data[kind].values() for i in s]


def cell(tests: list[str]) -> str:
    """The tests of a row, or "gap"."""
    return "<br>".join(f"`{test}`" for test in tests) or "gap"


def features(data: Mapping[str, Any], found: Mapping[str, list[str]]) -> list[str]:
    """A table per group of features."""
    lines: list[str] = []
    for title, rows in data["features"].items():
        lines += ["", f"### {title}", "", "| row | feature | here | tests |", "|---|---|---|---|"]
        for i, phrase in rows.items():
            if i in data["left"]:
                lines.append(f"| {i} | {phrase} | left out: {data['left'][i]} | |")
                continue
            here = f"better: {data['better'][i]}" if i in data["better"] else "same"
            here = data["different"].get(i, here)
            lines.append(f"| {i} | {phrase} | {here} | {cell(found.get(i, []))} |")
    return [*lines, ""]


def rules(data: Mapping[str, Any], found: Mapping[str, list[str]]) -> list[str]:
    """A table per group of exact rules."""
    lines: list[str] = []
    for title, rows in data["rules"].items():
        lines += [
            "",
            f"### {title}",
            "",
            "| rule | behaviour | here | tests |",
            "|---|---|---|---|",
        ]
        for i, phrase in rows.items():
            here = data["different"].get(i, "better" if int(i[1:]) >= FIRST_DEFECT else "same")
            lines.append(f"| {i} | {phrase} | {here} | {cell(found.get(i, []))} |")
    return [*lines, ""]


FIRST_DEFECT = 105


def names(data: Mapping[str, Any], found: Mapping[str, list[str]]) -> list[str]:
    """A table of modules: each name with its home here."""
    lines = ["", "| LangGraph | here |", "|---|---|"]
    for module, homes in NAMES.items():
        told = [f"`{home}`" if exists(home) else f"`{home}` (gap)" for home in homes.values()]
        lines.append(f"| `{module}` | {', '.join(told)} |")
    return [*lines, ""]


def summary(data: Mapping[str, Any], found: Mapping[str, list[str]]) -> list[str]:
    """How many rows have a test."""
    rows = [i for i in known(data) if i not in data["left"]]
    with_tests = sum(i in found for i in rows)
    return ["", f"{with_tests} of {len(rows)} rows are shown by at least one test.", ""]


TABLES: dict[str, Callable[[Mapping[str, Any], Mapping[str, list[str]]], list[str]]] = {
    "features": features,
    "rules": rules,
    "names": names,
    "summary": summary,
}


def renewed(text: str) -> str:
    """The page with its tables as they should be now."""
    data, found = words(), shown()

    def table(place: re.Match[str]) -> str:
        made = "\n".join(TABLES[place[1]](data, found))
        return f"<!-- table: {place[1]} -->\n{made}\n<!-- end -->"

    return PLACE.sub(table, text)


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text("utf-8")), "utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")
