"""Run each program of `programs/` over both libraries, and compare what they return and stream.

Likewise the spans that packages for tracing make of some of them, and the events that packages
for pages make of an agent.

A difference that no entry of `differences.toml` allows is a failure, and so is an entry that
allows nothing. Chunks of tools that run at the same time may come in any order.
"""

import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.ecosystem.processes import LAYER, LIBRARIES, NATIVE, command, output, start

HERE = Path(__file__).parent
PROGRAMS = tuple(sorted(path.stem for path in (HERE / "programs").glob("*.py")))
TRACERS = ("openinference", "opentelemetry", "langfuse")
PAGES = ("ag_ui", "copilotkit")
DRIVERS = {
    "programs": "tests.ecosystem.drive",
    "spans": "tests.ecosystem.spans",
    "pages": "tests.ecosystem.pages",
}
CONCURRENT = ("tools", "select_tools", "look")
"""Nodes of which one superstep runs several."""
ABSENT = "<absent>"
SHOWN_MAX = 5
Lines = dict[str, list[Any]]


@dataclass(frozen=True)
class Difference:
    """One value that differs.

    Attributes:
        program: its name.
        place: how the program was run, then the keys that lead to the value.
    """

    program: str
    place: str
    native: Any
    layer: Any

    def __str__(self) -> str:
        shown = [json.dumps(value)[:200] for value in (self.native, self.layer)]
        return f"{self.program}: {self.place}: {NATIVE} {shown[0]}, {LAYER} {shown[1]}"


@dataclass(frozen=True)
class Allowed:
    """An entry of the table.

    Attributes:
        place: a pattern for the whole of `Difference.place`.
        native: a pattern for LangGraph's value as JSON; likewise layer.
        part: "programs", "spans", "pages" or "savers".
    """

    place: str
    native: str
    layer: str
    reason: str
    part: str

    def allows(self, one: Difference) -> bool:
        """Whether a difference is this one."""
        return (
            re.fullmatch(self.place, one.place) is not None
            and re.fullmatch(self.native, json.dumps(one.native), re.DOTALL) is not None
            and re.fullmatch(self.layer, json.dumps(one.layer), re.DOTALL) is not None
        )


def table(folder: Path = HERE, part: str = "programs") -> list[Allowed]:
    """Read a folder's table.

    Args:
        part: that of the entries which name none.
    """
    entries = tomllib.loads((folder / "differences.toml").read_text())["allowed"]
    return [
        Allowed(
            *(e["place"], e.get("native", ".*"), e.get("layer", ".*"), e["reason"]),
            part=e.get("part", part),
        )
        for e in entries
    ]


def lines_of(text: str) -> Lines:
    """Group a program's lines by the way it was run."""
    found: Lines = {}
    for line in text.splitlines():
        if line.startswith('{"way"'):
            read = json.loads(line)
            found.setdefault(read["way"], []).append([read["turn"], read["item"]])
    return {way: settled(items, way.endswith(" custom")) for way, items in found.items()}


def settled(items: list[Any], custom: bool) -> list[Any]:
    """Bring each run of chunks of concurrent tools into one order.

    Args:
        custom: whether all of them are from tools.
    """
    result: list[Any] = []
    together: list[Any] = []
    for item in [*items, None]:
        if item is not None and (custom or is_concurrent(item[1])):
            together.append(item)
            continue
        result += sorted(together, key=_order)
        together = []
        if item is not None:
            result.append(item)
    return result


def is_concurrent(chunk: Any) -> bool:
    """Whether a chunk is the result of a tool, or sent by one."""
    if isinstance(chunk, list):
        return bool(chunk) and (
            is_concurrent(chunk[-1])
            or "custom" in chunk
            or (isinstance(chunk[-1], dict) and chunk[-1].get("langgraph_node") in CONCURRENT)
        )
    if not isinstance(chunk, dict):
        return False
    started = chunk.get("name") in CONCURRENT and "result" in chunk
    return started or any(set(chunk) == {name} for name in CONCURRENT)


def _order(item: Any) -> tuple[str, ...]:
    text = json.dumps(item)
    calls = re.findall(r'"tool_call_id": "([^"]*)"', text)
    return (*(calls or ["~" + text]), text[:40])


def differences(program: str, native: Lines, layer: Lines) -> Iterator[Difference]:
    """Every value that differs between two outputs."""
    for way in [*native, *(way for way in layer if way not in native)]:
        mine, theirs = native.get(way, []), layer.get(way, [])
        for place, one, other in _compared(mine, theirs, way):
            yield Difference(program, place, one, other)


def _compared(native: Any, layer: Any, at: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(native, dict) and isinstance(layer, dict):
        for key in native | layer:
            pair = native.get(key, ABSENT), layer.get(key, ABSENT)
            yield from _compared(*pair, f"{at}.{key}")
    elif isinstance(native, list) and isinstance(layer, list) and len(native) == len(layer):
        for index, pair in enumerate(zip(native, layer, strict=True)):
            yield from _compared(*pair, f"{at}[{index}]")
    elif native != layer or type(native) is not type(layer):
        yield at, native, layer


def compare_spans(python: str) -> bool:
    """Run some programs under each tracer, as `compare`."""
    return compare(python, TRACERS, part="spans")


def compare_pages(python: str) -> bool:
    """Run an agent behind each package that serves it to pages, as `compare`."""
    return compare(python, PAGES, part="pages")


def compare(python: str, programs: tuple[str, ...] = PROGRAMS, part: str = "programs") -> bool:
    """Run the programs, both libraries side by side; prints and returns whether they agree.

    Args:
        part: "spans" for what tracers make, "pages" for what pages get; `programs` are then the
            packages.
    """
    allowed, used, failed = [one for one in table() if one.part == part], Counter[str](), False
    for program in programs:
        begun = [start(command(python, one, DRIVERS[part], program)) for one in LIBRARIES]
        native, layer = [lines_of(output(process)) for process in begun]
        found = list(differences(program, native, layer))
        left = []
        for one in found:
            entry = next((entry for entry in allowed if entry.allows(one)), None)
            if entry is None:
                left.append(one)
            else:
                used[entry.reason] += 1
        errors = [way for way, items in native.items() if any(turn < 0 for turn, _ in items)]
        failed = failed or bool(left or errors or not native)
        lines = sum(map(len, native.values()))
        print(
            f"{program}: {len(native)} ways, {lines} outputs and chunks, "
            f"{len(found) - len(left)} allowed differences, {len(left)} others",
            flush=True,
        )
        for way in errors:
            print(f"  fails under {NATIVE}: {way}: {native[way]}")
        for one in left[:SHOWN_MAX]:
            print(f"  {one}")
    if programs in {PROGRAMS, TRACERS, PAGES}:
        for entry in allowed:
            if not used[entry.reason]:
                print(f"differences.toml: nothing differs any more: {entry.reason}")
                failed = True
    for reason, count in used.items():
        print(f"  allowed {count} times: {reason}")
    return not failed
