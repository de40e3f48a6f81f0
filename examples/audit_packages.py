"""Audit Python source, package by package: durable, concurrent, and resumable at any moment.

    python examples/audit_packages.py                       the whole standard library
    python examples/audit_packages.py json email ./src rich some packages, a folder, a distribution
    python examples/audit_packages.py --backend trio --durability async

Each package is one durable thread of one graph (audit/graph.py): list its files, measure all of
them at the same time, rank the hot spots, wait for a reviewer where the risk is high, write a
report. All threads run at once in this process and keep their state in one SQLite file.

Stop it with Ctrl-C, or kill it with -9, and run the same command again: it goes on where it
stopped, and says how much it did not have to do again.
"""

import argparse
import platform
import sys
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import anyio
from rich.console import Console
from rich.table import Table

from audit.board import Board, Progress, batch_figures
from audit.drive import Answer, Durability, Job, Outcome, audit
from audit.files import WRITERS
from audit.graph import Audit, new_tools, package_of
from audit.ledger import Ledger
from audit.markdown import STANDING_WORDS, main_report, package_report
from audit.page import html_report
from audit.score import ADVICE, Question, Verdict, place_of
from audit.summary import AuditedPackage, Overview, overview_of
from audit.targets import Package, UnknownTargetError, find_packages

RISKIEST_SHOWN = 5
STOPPED_BY_SIGNAL = 130


@dataclass(frozen=True, slots=True)
class Options:
    """The command line."""

    targets: list[str]
    database: Path
    out: Path
    durability: Durability
    backend: str
    ask: bool
    progress: bool
    fresh: bool
    with_tests: bool
    oracle: Path | None


def main(arguments: list[str] | None = None) -> int:
    """Audit, report, and print a summary.

    Returns: the exit status: 0, 2 for a target that does not exist, 130 when it was stopped.
    """
    options = read_options(arguments)
    console = Console(highlight=False)
    # Odd but valid source is what an audit looks for; it must not write into the picture.
    warnings.simplefilter("ignore")
    try:
        packages = find_packages(options.targets, with_tests=options.with_tests)
    except UnknownTargetError as error:
        console.print(str(error), style="red", markup=False, soft_wrap=True)
        return 2
    if options.fresh:
        forget(options.database)
    with Ledger(options.oracle) as ledger:
        outcome = run_to_the_end(options, packages, ledger, console)
        parsed = ledger.parsed
    say_what_was_done(console, options, packages, outcome, parsed)
    return STOPPED_BY_SIGNAL if outcome.stopped else 0


def read_options(arguments: list[str] | None) -> Options:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description="Audit Python source, package by package, durably.",
        epilog="Run the same command again after a crash: it goes on where it stopped.",
    )
    add = parser.add_argument
    add("targets", nargs="*", help="packages of the standard library, folders, distributions")
    add("--db", type=Path, default=Path("audit.db"), help="the SQLite file (%(default)s)")
    add("--out", type=Path, default=Path("audit-report"), help="folder of reports (%(default)s)")
    add("--durability", choices=["sync", "async", "exit"], default="sync")
    add("--backend", choices=sorted(WRITERS), default="asyncio", help="the event loop")
    add("--ask", action="store_true", help="ask for verdicts here, instead of by policy")
    add("--no-progress", action="store_true", help="no live picture")
    add("--fresh", action="store_true", help="forget what the SQLite file holds, and begin anew")
    add("--with-tests", action="store_true", help="audit test suites too")
    add("--oracle", type=Path, help="append each start, end and acknowledgement of a parse here")
    given = parser.parse_args(arguments)
    return Options(
        targets=given.targets,
        database=given.db,
        out=given.out,
        durability=given.durability,
        backend=given.backend,
        ask=given.ask,
        progress=not given.no_progress,
        fresh=given.fresh,
        with_tests=given.with_tests,
        oracle=given.oracle,
    )


def forget(database: Path) -> None:
    """Delete a SQLite file, with the two files that SQLite may keep beside it."""
    for suffix in ("", "-wal", "-shm"):
        database.with_name(database.name + suffix).unlink(missing_ok=True)


def run_to_the_end(
    options: Options, packages: list[Package], ledger: Ledger, console: Console
) -> Outcome:
    """Audit on the chosen event loop; with --ask, stop it for the questions and start it again."""
    title = title_of(options.targets)

    def call_audit(answer: Answer) -> Outcome:
        board = Board(console, title, Progress(len(packages)), options.progress)
        tools = new_tools(options.out, WRITERS[options.backend], ledger)
        job = Job(packages, options.database, options.durability, tools, board)
        return anyio.run(audit, job, answer, backend=options.backend)

    if not options.ask:
        outcome = call_audit(answer_by_policy)
    else:
        # Nothing runs while a person thinks: the threads that wait are rows in the SQLite file.
        outcome = call_audit(lambda _: None)
        if outcome.questions and not outcome.stopped:
            verdicts = ask_reviewer(console, outcome.questions)
            first = outcome
            outcome = call_audit(lambda question: verdicts.get(question["package"]))
            outcome.finished_before = first.finished_before
            outcome.seconds += first.seconds
    if not outcome.stopped:
        anyio.run(write_reports, options, title, outcome, ledger.parsed, backend=options.backend)
    return outcome


def title_of(targets: list[str]) -> str:
    """The subject of the reports; of a path only its last name, the same on every machine."""
    if not targets:
        return f"Audit of Python {platform.python_version()}'s standard library"
    names = [Path(target).resolve().name for target in targets]
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return f"Audit of {', '.join(names[:4])}{more}"


def answer_by_policy(question: Question) -> Verdict:
    """The demo's reviewer: does what the figures speak for."""
    return Verdict(advice=question["advice"], by="policy")


def ask_reviewer(console: Console, questions: Iterable[Question]) -> dict[str, Verdict]:
    """Ask for a verdict on each package, the riskiest first. A reviewer may answer later."""
    verdicts = dict[str, Verdict]()
    console.print("A verdict on each, please; Ctrl-D leaves the rest waiting.", style="bold")
    for question in sorted(questions, key=lambda q: (-q["risk"], q["package"])):
        console.print(f"\n[bold]{question['package']}[/]: risk {question['risk']:g}")
        for line in (*question["reasons"], *question["hot_spots"]):
            console.print(f"  {line}", style="dim", markup=False)
        try:
            verdicts[question["package"]] = read_verdict(question)
        except (EOFError, KeyboardInterrupt):
            console.print("\nThe rest keeps waiting; run the same command to answer.")
            break
    return verdicts


def read_verdict(question: Question, read: Callable[[str], str] = input) -> Verdict:
    """Read one verdict; an empty line takes the advice, a first letter is enough."""
    while True:
        text = read(f"  {' | '.join(ADVICE)} [{question['advice']}] ").strip().lower()
        for advice in ADVICE:
            if advice.startswith(text or question["advice"]):
                return Verdict(advice=advice, by="reviewer")


async def write_reports(options: Options, title: str, outcome: Outcome, parsed: int) -> None:
    """Write the two main reports, and any package's report that this folder lacks."""
    overview = overview_of(title, audited_packages(outcome))
    write = WRITERS[options.backend]
    for package in overview.packages:
        path, text = options.out / package.report, package_report(package)
        # It is there already, unless the folder is another one than when the thread ended.
        if not package.waits and not await holds(path, text):
            await write(path, text)
    run = run_facts(options, outcome, parsed, overview)
    await write(options.out / "report.md", main_report(overview, run))
    await write(options.out / "report.html", html_report(overview, run))


async def holds(path: Path, text: str) -> bool:
    """Whether a file is there, with just this text."""
    try:
        return await anyio.Path(path).read_text("utf-8") == text
    except OSError:
        return False


def audited_packages(outcome: Outcome) -> list[AuditedPackage]:
    """Every package that got as far as a ranking."""
    waiting = {question["package"] for question in outcome.questions}

    def audited(state: Audit) -> AuditedPackage:
        return package_of(state, waits=state["package"] in waiting)

    return [audited(state) for state in outcome.states.values() if "ranking" in state]


def run_facts(
    options: Options, outcome: Outcome, parsed: int, overview: Overview
) -> list[tuple[str, str]]:
    """The part that differs from run to run: the only place in a report for such things."""
    files = overview.totals["files"]
    return [
        ("Time", f"{outcome.seconds:.1f} s, {parsed / max(0.001, outcome.seconds):,.0f} files/s"),
        ("Files parsed now", f"{parsed:,} of {files:,}"),
        ("Files not parsed again", f"{files - parsed:,}"),
        ("Threads finished before", f"{outcome.finished_before:,}"),
        ("Durability", f"{options.durability}, on {options.backend}"),
        *((label.capitalize(), text) for label, text in batch_figures(outcome.statistics)),
        ("Python", f"{platform.python_version()} on {platform.system()}"),
        ("actorgraph", version_of("actorgraph")),
    ]


def version_of(distribution: str) -> str:
    """The version of an installed distribution."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "not installed: from its folder"


def say_what_was_done(
    console: Console, options: Options, packages: list[Package], outcome: Outcome, parsed: int
) -> None:
    """The last lines on the terminal."""
    if outcome.stopped:
        console.print(
            f"Stopped after {parsed:,} files and {len(outcome.states):,} of {len(packages):,}"
            " packages. Everything finished is kept: run the same command to go on.",
            style="yellow",
            soft_wrap=True,
        )
        return
    overview = overview_of("", audited_packages(outcome))
    say_the_riskiest(console, overview)
    totals = overview.totals
    console.print(
        f"[bold]Audited {len(overview.packages):,} packages, {totals['files']:,} files,"
        f" {totals['lines']:,} lines in {outcome.seconds:.1f} s[/]"
        f" ({options.durability}, {options.backend})",
        soft_wrap=True,
    )
    if before := totals["files"] - parsed:
        console.print(
            f"Went on with {options.database.name}: {before:,} files were measured before and not"
            f" parsed again, {parsed:,} parsed now; {outcome.finished_before:,} packages were"
            " finished before.",
            style="green",
            soft_wrap=True,
        )
    if figures := batch_figures(outcome.statistics):
        console.print(
            "Saver: " + ", ".join(f"{text} {label}" for label, text in figures), soft_wrap=True
        )
    if overview.problems:
        console.print(f"Not measured: {len(overview.problems):,} files; the reports name them.")
    if outcome.questions:
        console.print(f"{len(outcome.questions):,} packages wait for a verdict.", style="yellow")
    console.print(
        f"Reports: {options.out / 'report.html'}, {options.out / 'report.md'}", soft_wrap=True
    )


def say_the_riskiest(console: Console, overview: Overview) -> None:
    """A few packages, so that a reader sees at once whether the figures make sense."""
    table = Table(box=None, padding=(0, 3, 0, 0), header_style="dim")
    table.add_column("riskiest")
    table.add_column("risk", justify="right")
    table.add_column("verdict")
    table.add_column("worst function", overflow="ellipsis", no_wrap=True)
    for package in overview.packages[:RISKIEST_SHOWN]:
        spots = package.ranking["hot_spots"]
        table.add_row(
            package.name,
            f"{package.ranking['risk']:.1f}",
            STANDING_WORDS[package.standing],
            place_of(spots[0]) if spots else "",
        )
    console.print(table)


if __name__ == "__main__":
    sys.exit(main())
