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

from tests.bench import rival
from tests.differential.builder import OURS, THEIRS
from tests.differential.compare import compare
from tests.differential.pairs import Pair, Worker
from tests.differential.rules import allowed
from tests.differential.shrink import smallest
from tests.differential.specs import generate

SHOWN_MAX = 5


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument("--graphs", type=int, default=300, metavar="N", help="default 300")
    parser.add_argument("--seed", type=int, default=0, help="of the first graph; others follow")
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
    pair = Pair(Worker(sys.executable, OURS), Worker(str(rival.ensure()), THEIRS))
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
    print(f"{equal} of {len(specs)} graphs do the same (seed {options.seed})")
    for name, count in sorted(excused.items()):
        print(f"  {count} up to an allowed difference: {name}, {allowed()[name]['what']}")
    if failed:
        print("different: seeds", *(spec["seed"] for spec in failed))
    return 1 if failed else 0


def report(pair: Pair, spec: dict) -> None:
    """Print the smallest spec that still shows a difference."""
    small = smallest(pair, spec)
    verdict = compare(small, *pair.traces(small))
    print(f"seed {spec['seed']}, {verdict.difference}\n    --spec '{json.dumps(small)}'\n")


if __name__ == "__main__":
    sys.exit(main())
