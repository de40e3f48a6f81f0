"""`python -m tests.bench`: actorgraph against LangGraph and against raw floors, as one table.

Reads      the command line
Prints     progress to stderr; facts and tables to stdout, as Markdown
Writes     `.bench/` (LangGraph's environment, databases while they are measured), `--json FILE`
Ends       with 0 whatever the figures are, because a benchmark is not a test; with 1 when
           something could not be measured.
"""

import argparse
import json
import os
import sys
from pathlib import Path

from tests.bench import catalogue, facts, report, rival, runner


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes: does it run at all?")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="measure only these, by name")
    parser.add_argument("--list", action="store_true", help="print the names and stop")
    parser.add_argument("--repetitions", type=int, metavar="N", help="instead of each one's own")
    parser.add_argument(
        "--backend",
        choices=["asyncio", "trio"],
        default="asyncio",
        help="actorgraph's event loop; LangGraph knows only asyncio",
    )
    parser.add_argument("--no-rival", action="store_true", help="do not measure LangGraph")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    # For work on the harness itself: any library may take actorgraph's place.
    parser.add_argument("--subject", default="actorgraph", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    """Measure what the command line asks for, and print it."""
    options = arguments()
    measures = catalogue.select(options.only, quick=options.quick)
    if options.list:
        print("\n".join(f"{measure.name:22} {measure.title}" for measure in measures))
        return 0
    load_before = os.getloadavg()[0]
    pythons = interpreters(options)
    bench = runner.Bench(pythons, options.subject, options.backend, options.repetitions)
    outcomes = [bench.measure(measure) for measure in measures]
    machine = facts.gather(bench, load_before)
    print(report.render(machine, outcomes, quick=options.quick))
    if options.json:
        document = {"facts": machine, "measures": [report.as_json(each) for each in outcomes]}
        options.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    rival_missing = catalogue.RIVAL not in pythons and not options.no_rival
    return 1 if rival_missing or any(outcome.failures for outcome in outcomes) else 0


def interpreters(options: argparse.Namespace) -> dict[str, str]:
    """Side -> interpreter; LangGraph is left out if it is unwanted or can't be installed."""
    pythons = {catalogue.SUBJECT: sys.executable}
    if options.no_rival:
        return pythons
    try:
        pythons[catalogue.RIVAL] = str(rival.ensure())
    except rival.RivalMissing as reason:
        print(f"LangGraph is not measured, it can't be installed: {reason}", file=sys.stderr)
        return pythons
    if options.subject == catalogue.RIVAL:
        pythons[catalogue.SUBJECT] = pythons[catalogue.RIVAL]
    return pythons


if __name__ == "__main__":
    sys.exit(main())
