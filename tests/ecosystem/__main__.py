"""The packages that import `langgraph`, over LangGraph and over actorgraph.

    python -m tests.ecosystem --python .venv-ecosystem/bin/python \
        --savers .venv-savers/bin/python [--newest] [PART ...]

PART: suite (tests of LangChain, langgraph-supervisor and others), programs, spans (of tracers),
pages (of packages that serve agents to them), kills, savers (of other packages), speed; default
all. Ends with 1 if one of them fails, and says what it has not run. With --newest, which installs
the newest versions of all packages in an environment of its own, it says first which versions
differ from the pins.
"""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.ecosystem.kill_runs import kill_all
from tests.ecosystem.newest import newest
from tests.ecosystem.run import compare, compare_pages, compare_spans
from tests.ecosystem.savers.compare import compare_savers
from tests.ecosystem.speeds import compare_speeds
from tests.ecosystem.suite import run_suites

KILLS = 12
SEED = 1
MINUTES_MAX = 15.0


def main() -> int:
    """Run the parts; returns the exit code."""
    arguments = argparse.ArgumentParser(prog="python -m tests.ecosystem")
    arguments.add_argument("parts", nargs="*", help="suite, programs, spans, pages, kills, ...")
    arguments.add_argument("--python", default=sys.executable, help="has the packages")
    arguments.add_argument("--savers", default=sys.executable, help="has packages of savers")
    arguments.add_argument("--kills", type=int, default=KILLS, help="per program and database")
    arguments.add_argument("--seed", type=int, default=SEED, help="of the moments of the kills")
    arguments.add_argument("--sdist", type=Path, help="LangChain's sources, unpacked")
    arguments.add_argument("--newest", action="store_true", help="newest versions, not the pins")
    given = arguments.parse_args()
    # Not resolved: a virtual environment's interpreter is found by the name it is called with. But
    # absolute, since the processes begin in other folders.
    python, savers = (str(Path(name).absolute()) for name in (given.python, given.savers))
    python = newest() if given.newest else python
    parts: dict[str, Callable[[], bool]] = {
        "suite": lambda: run_suites(python, given.sdist),
        "programs": lambda: compare(python),
        "spans": lambda: compare_spans(python),
        "pages": lambda: compare_pages(python),
        "kills": lambda: kill_all(python, given.kills, given.seed),
        "savers": lambda: compare_savers(savers),
        "speed": lambda: compare_speeds(python),
    }
    wanted = given.parts or list(parts)
    if unknown := [name for name in wanted if name not in parts]:
        arguments.error(f"no such part: {unknown[0]}; there are {', '.join(parts)}")
    began, failed, left = time.monotonic(), list[str](), list[str]()
    for name, part in parts.items():
        minutes = (time.monotonic() - began) / 60
        if name not in wanted or minutes > MINUTES_MAX:
            left.append(name)
            continue
        print(f"== {name}", flush=True)
        if not part():
            failed.append(name)
    print(f"== {(time.monotonic() - began) / 60:.1f} minutes")
    print(f"not run: {', '.join(left) or 'nothing'}; failed: {', '.join(failed) or 'nothing'}")
    return 1 if failed or (left and not given.parts) else 0


if __name__ == "__main__":
    sys.exit(main())
