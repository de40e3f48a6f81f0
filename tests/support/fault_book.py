"""`make faults` in parts: what has passed on this tree is remembered, and isn't run again.

    make faults                  what hasn't passed yet
    make faults PART=2/4         the second of four parts, of which the same
    make faults ARGS='-k kill'   these of tests/faults, whether they have passed or not
    make faults-report           the tables of all that has passed, what failed, what is missing

A test's end is a line of `.faults/ends.jsonl`, whichever process ran it, so a run that is stopped
loses no more than the tests that it was in. A line bears the digest of what the test executes: the
library, the examples, what tests share, and its own file. So a sentence in a page, or a change to
another test, leaves what has passed as it is. `.faults/` may be deleted.
"""

import argparse
import contextlib
import hashlib
import io
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.faults.tables import tables_of

T = TypeVar("T")

ROOT = Path(__file__).resolve().parents[2]
BOOK = ROOT / ".faults" / "ends.jsonl"
PLUGIN = ["-p", "tests.support.fault_book", "--fault-book", str(BOOK)]
SETS = (["tests/faults"], ["tests", "--ignore=tests/docs", "--ignore=tests/faults", "--long"])
"""The arguments of pytest for each set of tests: these are collected alone or with others."""
EXECUTED = ("actorgraph", "tests", "examples", "pyproject.toml")
"""Folders and files of which digests are made."""
_IMPORT = re.compile(r"^\s*(?:from|import) tests\.([\w.]+)", re.MULTILINE)

OUTCOMES = ("failed", "skipped", "passed")
"""The worst first."""


@dataclass(frozen=True, slots=True)
class End:
    """How one test ended: one of `OUTCOMES`, its seconds, its lines of tables.

    `tree` is the digest of what it executed: `Tree.digest_of`.
    """

    tree: str
    test: str
    outcome: str
    seconds: float
    figures: list[tuple[str, str]]


class Tree:
    """The files that git knows or would add, in `EXECUTED`, as they are now.

    A file of tests is executed by its own tests and by those of the files that import it, a module
    of `tests/bench` likewise; each other file is by all tests.
    """

    def __init__(self, root: Path = ROOT) -> None:
        listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *EXECUTED]
        names = subprocess.run(listed, cwd=root, capture_output=True, check=True).stdout
        self._digests: dict[str, str] = {}
        self._imports: dict[str, set[str]] = {}
        for name in sorted(set(names.decode().split("\0"))):
            if name and (root / name).is_file():
                content = (root / name).read_bytes()
                self._digests[name] = hashlib.sha256(content).hexdigest()
                if name.startswith("tests/") and name.endswith(".py"):
                    found = _IMPORT.findall(content.decode())
                    self._imports[name] = {f"tests/{it.replace('.', '/')}.py" for it in found}
        self._shared = {name for name in self._digests if not _is_alone(name)}
        for name in tuple(self._shared):
            self._shared |= self._with_imports(name)
        self._known: dict[str, str] = {}

    def _with_imports(self, name: str) -> set[str]:
        """The name of a file, and of the files of tests and benchmarks that it needs."""
        names, waiting = set[str](), [name]
        while waiting:
            one = waiting.pop()
            if one not in names:
                names.add(one)
                waiting += [it for it in self._imports.get(one, ()) if _is_alone(it)]
        return names

    def digest_of(self, test: str) -> str:
        """
        The first twelve digits of the SHA-256 of all that a test executes; of a test of no file
        here, of what all tests do.
        """
        file = test.partition("::")[0]
        if file not in self._known:
            names = (self._shared | self._with_imports(file)) & set(self._digests)
            lines = "".join(f"{name}\0{self._digests[name]}\n" for name in sorted(names))
            self._known[file] = hashlib.sha256(lines.encode()).hexdigest()[:12]
        return self._known[file]


def _is_alone(name: str) -> bool:
    """If only some tests execute a file."""
    return name.startswith("tests/") and (
        name.startswith("tests/bench/") or Path(name).name.startswith("test_")
    )


def ends_in(book: Path, digest_of: Callable[[str], str]) -> dict[str, End]:
    """
    Test -> its last end on what it executes now. A line that a killed process left half is skipped.
    """
    ends: dict[str, End] = {}
    for line in book.read_text().splitlines() if book.exists() else ():
        try:
            fields = json.loads(line)
        except ValueError:
            continue
        if fields["tree"] == digest_of(fields["test"]):
            fields["figures"] = [(table, text) for table, text in fields["figures"]]
            ends[fields["test"]] = End(**fields)
    return ends


def add(book: Path, end: End) -> None:
    """
    Append a line, in one write: other processes append to the same file.
    """
    book.parent.mkdir(exist_ok=True)
    fields = {name: getattr(end, name) for name in End.__slots__}
    descriptor = os.open(book, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, (json.dumps(fields) + "\n").encode())
    finally:
        os.close(descriptor)


def part_of(items: list[T], part: str) -> list[T]:
    """
    Every n-th item from the k-th on, for "k/n": neighbours, which take alike long, are in
    different parts. "" is all of them.

    Raises:
        ValueError: the part isn't of the form k/n with 1 <= k <= n.
    """
    if not part:
        return items
    first, _, parts = part.partition("/")
    if not (first.isdecimal() and parts.isdecimal() and 1 <= int(first) <= int(parts)):
        raise ValueError(f"PART={part} is not of the form 2/4")
    return items[int(first) - 1 :: int(parts)]


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of the plugin, which `make faults` sets."""
    group = parser.getgroup("fault book")
    group.addoption("--fault-book", metavar="FILE", help="remember how each test ends")
    group.addoption("--fault-part", default="", metavar="K/N", help="one of so many parts")
    group.addoption("--fault-again", action="store_true", help="run what has passed, too")


def pytest_configure(config: pytest.Config) -> None:
    """Read what has passed once, so that all processes of pytest-xdist choose the same tests."""
    if config.getoption("--fault-book"):
        try:
            part_of([], str(config.getoption("--fault-part")))
        except ValueError as error:
            raise pytest.UsageError(str(error)) from None
        handed_down = getattr(config, "workerinput", {}).get("fault_book")
        config.pluginmanager.register(Plugin(config, handed_down), "fault-book")


class Plugin:
    """Leaves out what has passed and what other parts have; writes how the rest ends."""

    def __init__(self, config: pytest.Config, handed_down: list[str] | None) -> None:
        self._book = Path(str(config.getoption("--fault-book")))
        self._digest_of = Tree().digest_of
        if handed_down is None:
            ends = ends_in(self._book, self._digest_of).values()
            passed = [end.test for end in ends if end.outcome != "failed"]
            handed_down = [] if config.getoption("--fault-again") else passed
        self._passed = set(handed_down)
        self._part = str(config.getoption("--fault-part"))
        self._reports: list[pytest.TestReport] = []

    @pytest.hookimpl(optionalhook=True)  # of pytest-xdist
    def pytest_configure_node(self, node: Any) -> None:
        """Hand on to the processes that run the tests."""
        node.workerinput["fault_book"] = sorted(self._passed)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Choose this part of the tests, then what of it hasn't passed."""
        part = part_of(sorted(items, key=lambda item: item.nodeid), self._part)
        mine = {item.nodeid for item in part} - self._passed
        others = [item for item in items if item.nodeid not in mine]
        if others:
            config.hook.pytest_deselected(items=others)
            items[:] = [item for item in items if item.nodeid in mine]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Iterator[None]:
        """Collect the reports on set-up, call and tear-down in the process of the test."""
        report = yield
        self._reports.append(report)
        return report

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Write the test's end."""
        reports, self._reports = self._reports, []
        if not reports:  # of another process
            return
        worst = min([report.outcome for report in reports], key=OUTCOMES.index)
        seconds = round(sum(report.duration for report in reports), 2)
        figures = [(t, str(line)) for r in reports[1:2] for t, line in r.user_properties]
        add(self._book, End(self._digest_of(nodeid), nodeid, worst, seconds, figures))


class _Names:
    """A plugin that collects the names of tests."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.names = [item.nodeid for item in session.items]


def run(part: str, workers: str, arguments: list[str]) -> int:
    """
    Run what is missing of both sets, and then, in one process, the tests that are marked `alone`;
    with arguments of pytest those of tests/faults.

    Returns:
        0 if nothing failed, or there was nothing to run.
    """
    python = [sys.executable, "-m", "pytest", *PLUGIN, "--fault-part", part]
    spread = ["-n", workers, "--dist", "worksteal"]
    chosen = [[*SETS[0], "--fault-again", *arguments]]
    if not arguments:
        beside = [[*tests, *spread, "-m", "not alone"] for tests in SETS]
        chosen = [*beside, [*SETS[0], "-m", "alone"]]
    ended = [subprocess.run([*python, *c], cwd=ROOT, check=False).returncode for c in chosen]
    return 0 if set(ended) <= {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED} else 1


def report() -> int:
    """
    Print the tables of what has passed on this tree, and what is missing.

    Returns:
        0 if every test of both sets has passed or was skipped.
    """
    tree, wanted = Tree(), list[str]()
    for chosen in SETS:
        names = _Names()
        with contextlib.redirect_stdout(io.StringIO()) as said:
            if pytest.main(["--collect-only", "-qq", *chosen], plugins=[names]):
                sys.exit(said.getvalue())
        wanted += names.names
    ends = ends_in(BOOK, tree.digest_of)
    for line in report_lines(wanted, ends):
        print(line)
    return 0 if all(t in ends and ends[t].outcome != "failed" for t in wanted) else 1


def report_lines(wanted: Iterable[str], ends: dict[str, End]) -> Iterator[str]:
    """
    The report as text: tables of figures, then counts, then what failed and what is missing.
    """
    mine = {test: ends.get(test) for test in wanted}
    for table, lines in tables_of(pair for e in mine.values() if e for pair in e.figures):
        yield from ("", table, *lines)
    counts = Counter("missing" if end is None else end.outcome for end in mine.values())
    seconds = sum(end.seconds for end in mine.values() if end)
    parts = ", ".join(f"{counts[o]:,} {o}" for o in ("passed", "skipped", "failed", "missing"))
    yield from ("", f"{parts} of {len(mine):,}; {seconds:,.0f} s of tests")
    yield from (f"failed   {test}" for test, end in mine.items() if end and end.outcome == "failed")
    missing = Counter(test.split("::")[0] for test, end in mine.items() if end is None)
    yield from (f"missing  {number:>5} of {file}" for file, number in sorted(missing.items()))


def main() -> int:
    """The commands `run` and `report`."""
    parser = argparse.ArgumentParser(prog="fault_book", description="make faults, in parts")
    commands = parser.add_subparsers(dest="command", required=True)
    runs = commands.add_parser("run")
    runs.add_argument("--part", default="", metavar="K/N")
    runs.add_argument("--workers", default="3")
    commands.add_parser("report")
    options, arguments = parser.parse_known_args()
    if options.command == "report":
        return report()
    return run(options.part, options.workers, arguments)


if __name__ == "__main__":
    sys.exit(main())
