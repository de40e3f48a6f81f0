"""`python -m tests.differential`: random graphs under this library and under LangGraph, compared.

Reads      the command line; allowed.toml
Prints     progress to stderr; the smallest spec of each difference, and a summary
Writes     `.bench/langgraph`, LangGraph's environment, at the first use
Ends       with 1 if there is a difference that allowed.toml doesn't excuse
"""

import argparse
import json
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path

from tests.bench import rival
from tests.differential.builder import OURS, THEIRS
from tests.differential.compare import compare
from tests.differential.pairs import Pair, Worker
from tests.differential.programs import PROGRAMS, changed_programs, write_outputs
from tests.differential.rules import allowed
from tests.differential.schedules import disagreements
from tests.differential.shrink import smallest
from tests.differential.specs import generate
from tests.differential.trace import Spec

SHOWN_MAX = 5
RECORDED = Path(__file__).with_name("recorded.jsonl")
RECORDED_SPECS = 24
RECORDED_CHARACTERS_MAX = 5_000


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument("--graphs", type=int, default=300, metavar="N", help="default 300")
    parser.add_argument("--seed", type=int, default=0, help="of the first graph; others follow")
    parser.add_argument("--schedules", type=int, default=1000, metavar="N", help="default 1000")
    parser.add_argument(
        "--record", action="store_true", help="write what LangGraph did, for `make test`"
    )
    parser.add_argument("--spec", metavar="JSON", help="one spec, as printed, instead")
    return parser.parse_args()


def main() -> int:
    """Compare what the command line asks for."""
    options = arguments()
    specs = (
        [json.loads(options.spec)]
        if options.spec
        else [generate(options.seed + i) for i in range(options.graphs)]
    )
    print(f"{len(specs)} graphs, seed {options.seed}", file=sys.stderr)
    equal = True
    for driver in ("async", "blocking"):
        ours = Worker(sys.executable, OURS, driver)
        with closing(Pair(ours, Worker(str(rival.ensure()), THEIRS, driver))) as pair:
            print(f"{driver}:")
            equal &= judge(pair, specs, options.seed)
            if options.record and driver == "async":
                record(pair, specs)
                write_outputs(str(rival.ensure()))
    steady = hold_schedules(specs, options.schedules)
    changed = changed_programs(str(rival.ensure()))
    print(f"{len(PROGRAMS) - len(changed)} of {len(PROGRAMS)} programs give what is recorded")
    print(*[f"  otherwise: {name}" for name in changed], sep="\n", end="")
    return 0 if equal and steady and not changed else 1


def record(pair: Pair, specs: list[Spec]) -> None:
    """Keep what LangGraph did with the first specs whose traces are equal, for `make test`."""
    kept: list[str] = []
    for spec in specs:
        ours, theirs = pair.traces(spec)
        if ours == theirs and len(json.dumps(theirs)) < RECORDED_CHARACTERS_MAX:
            kept.append(json.dumps({"spec": spec, "trace": theirs}))
    RECORDED.write_text("\n".join(kept[:RECORDED_SPECS]) + "\n", "utf-8")
    print(f"wrote {RECORDED.name}")


def hold_schedules(specs: list[Spec], schedules: int) -> bool:
    """Run each graph under many schedules; print those that end otherwise than the first."""
    found = {spec["seed"]: disagreements(spec, schedules) for spec in specs}
    for seed, told in found.items():
        if told:
            print(f"seed {seed}, {len(told)} schedules end otherwise: {told[0]}")
    calm = sum(not told for told in found.values())
    print(f"{calm} of {len(specs)} graphs end the same under {schedules} random schedules each")
    return calm == len(specs)


def judge(pair: Pair, specs: list[Spec], seed: int) -> bool:
    """Compare all specs; print what differs and what was excused."""
    excused: Counter[str] = Counter()
    failed = []
    for spec in specs:
        verdict = compare(spec, *pair.traces(spec))
        excused.update(verdict.excused)
        if verdict.difference is not None:
            failed.append(spec)
    for spec in failed[:SHOWN_MAX]:
        report(pair, spec)
    equal = len(specs) - len(failed)
    print(f"{equal} of {len(specs)} graphs do the same (seed {seed})")
    for name, count in sorted(excused.items()):
        print(f"  {count} up to an allowed difference: {name}, {allowed()[name]['what']}")
    if failed:
        print("different: seeds", *(spec["seed"] for spec in failed))
    return not failed


def report(pair: Pair, spec: Spec) -> None:
    """Print the smallest spec that still shows a difference."""
    small = smallest(pair, spec)
    verdict = compare(small, *pair.traces(small))
    print(f"seed {spec['seed']}, {verdict.difference}\n    --spec '{json.dumps(small)}'\n")


if __name__ == "__main__":
    sys.exit(main())
