"""`python -m tests.bench`: actorgraph against LangGraph, others and raw floors, as tables.

Reads      the command line
Prints     progress to stderr; facts and tables to stdout, as Markdown
Writes     `.bench/` (environments of others, databases while they are measured), `--json FILE`
Ends       with 0 whatever the figures are, because a benchmark is not a test; with 1 when
           something could not be measured.
"""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from tests.bench import catalogue, facts, large, pages, report, rival, runner, tokens, web_load


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes: does it run at all?")
    parser.add_argument(
        "--only",
        nargs="+",
        metavar="NAME",
        help='measure only these, by name; "web": runs over HTTP; "tokens": tokens to clients; '
        '"large": large values that change',
    )
    parser.add_argument(
        "--group",
        nargs="+",
        choices=[group.value for group in catalogue.Group],
        help="measure only these groups",
    )
    parser.add_argument("--list", action="store_true", help="print the names and stop")
    parser.add_argument("--repetitions", type=int, metavar="N", help="instead of each one's own")
    parser.add_argument(
        "--backend",
        choices=["asyncio", "trio"],
        default="asyncio",
        help="actorgraph's event loop; LangGraph knows only asyncio",
    )
    parser.add_argument("--no-rival", action="store_true", help="measure actorgraph only")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    parser.add_argument("--add", action="store_true", help="keep what FILE has of other measures")
    # For work on the harness itself: any library may take actorgraph's place.
    parser.add_argument("--subject", default="actorgraph", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    """Measure what the command line asks for, and print it."""
    options = arguments()
    if options.only == ["web"]:
        return web_load.main(quick=options.quick, peers=not options.no_rival)
    if options.only == ["tokens"]:
        return tokens.main(options)
    if options.only == ["large"]:
        pythons = interpreters(options, {catalogue.SUBJECT, catalogue.RIVAL})
        bench = runner.Bench(pythons, options.subject, options.backend, options.repetitions)
        return large.main(bench, quick=options.quick)
    measures = catalogue.select(options.only, quick=options.quick, groups=options.group)
    if options.list:
        print("\n".join(f"{measure.name:26} {measure.title}" for measure in measures))
        return 0
    load_before = os.getloadavg()[0]
    sides = {side for measure in measures for side in measure.sides}
    pythons = interpreters(options, sides)
    bench = runner.Bench(pythons, options.subject, options.backend, options.repetitions)
    outcomes = [bench.measure(measure) for measure in measures]
    machine = facts.gather(bench, load_before)
    print(report.render(machine, outcomes, quick=options.quick))
    if options.json:
        write_json(options, machine, outcomes)
    known = {*pythons, catalogue.RAW, catalogue.BARE}
    missing = sides - known and not options.no_rival
    return 1 if missing or any(outcome.failures for outcome in outcomes) else 0


def interpreters(options: argparse.Namespace, sides: set[str]) -> dict[str, str]:
    """Side -> interpreter; a library that is unwanted or can't be installed is left out."""
    pythons = {catalogue.SUBJECT: sys.executable}
    if options.no_rival:
        return pythons
    wanted = sides | {options.subject}
    for names, ensure in (
        ({catalogue.RIVAL}, rival.ensure),
        (set(catalogue.PEERS), rival.ensure_others),
    ):
        if not wanted & names:
            continue
        try:
            python = str(ensure())
        except rival.RivalMissing as reason:
            told = ", ".join(sorted(names))
            print(f"not measured, because it can't be installed: {told}: {reason}", file=sys.stderr)
            continue
        pythons |= dict.fromkeys(names, python)
    if options.subject == catalogue.RIVAL:
        pythons[catalogue.SUBJECT] = pythons[catalogue.RIVAL]
    return pythons


def write_json(
    options: argparse.Namespace, machine: dict[str, Any], outcomes: list[runner.Outcome]
) -> None:
    """Write all figures, a line per measure; `--add` keeps the file's measures of other names."""
    path = options.json
    measures = {outcome.measure.name: report.as_json(outcome) for outcome in outcomes}
    quick = options.quick
    more: dict[str, Any] = {}
    if options.add and path.exists():
        before = json.loads(path.read_text(encoding="utf-8"))
        quick = quick or before["quick"]
        measures = {each["name"]: each for each in before["measures"]} | measures
        libraries = dict.fromkeys([*before["facts"]["libraries"], *machine["libraries"]])
        machine = {**machine, "libraries": list(libraries)}
        more = {key: before[key] for key in before.keys() & {"tokens"}}
    document = {"quick": quick, "facts": machine, "measures": [*measures.values()], **more}
    pages.save(path, document)


if __name__ == "__main__":
    sys.exit(main())
