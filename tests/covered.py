"""Print which lines of each package the tests reached: `make coverage` runs this at its end.

Reads coverage's JSON report. Processes that tests start are not measured.
"""

import json
import sys
from collections import Counter
from pathlib import Path


def packages(report: dict) -> dict[str, Counter[str]]:
    """Package or module right below actorgraph/ -> its `lines` and those that were `reached`."""
    found: dict[str, Counter[str]] = {}
    for path, file in report["files"].items():
        name = Path(path).parts[1]
        summary = file["summary"]
        counts = Counter(lines=summary["num_statements"], reached=summary["covered_lines"])
        found[name] = found.get(name, Counter()) + counts
    return found


def table(found: dict[str, Counter[str]]) -> str:
    """A line per package, and one for all."""
    rows = [f"{'package':20} {'lines':>8} {'missed':>8} {'covered':>8}"]
    for name, counts in [*sorted(found.items()), ("all", sum(found.values(), Counter()))]:
        missed = counts["lines"] - counts["reached"]
        share = 100 * counts["reached"] / max(1, counts["lines"])
        rows.append(f"{name:20} {counts['lines']:8} {missed:8} {share:7.1f}%")
    return "\n".join(rows)


if __name__ == "__main__":
    print(table(packages(json.loads(Path(sys.argv[1]).read_text("utf-8")))))
