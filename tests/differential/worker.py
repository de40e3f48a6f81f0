"""`python -m tests.differential.worker LIBRARY [DRIVER]`: specs in, traces out, in JSON lines.

DRIVER is "async", the default; "plain", with plain functions; "blocking", these and the blocking
methods. Runs in the environment of its library, so it imports nothing of the other one.
"""

import asyncio
import json
import sys
import warnings
from typing import Any

from tests.differential.blocking import Blocking, run
from tests.differential.builder import Built, Library, build
from tests.differential.driver import drive
from tests.differential.trace import Spec, Trace

SECONDS_MAX = 20


def main() -> None:
    """Answer each line until the input ends."""
    library, driver = Library(sys.argv[1]), (*sys.argv, "async")[2]
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        spec = json.loads(line)
        print(json.dumps(traced(library, spec, driver)), flush=True)


def traced(library: Any, spec: Spec, driver: str = "async") -> Trace:
    """The trace of one spec; a graph that can't be built has one entry that says why."""
    try:
        built = build(library, spec, plain=driver != "async")
    except ValueError:
        return [{"given": "build", "outcome": {"error": "ValueError"}, "state": {}}]
    except Exception as error:  # noqa: BLE001 - its text is compared
        return [{"given": "build", "outcome": {"error": repr(error)}, "state": {}}]
    if driver == "blocking":
        return drive_blocking(library, built, spec)
    try:
        return asyncio.run(drive_in_time(library, built, spec))
    except TimeoutError:
        return [{"given": "build", "outcome": {"error": "timeout"}, "state": {}}]


async def drive_in_time(library: Any, built: Built, spec: Spec) -> Trace:
    """As `drive`, but not for ever."""
    return await asyncio.wait_for(drive(library, built, spec), SECONDS_MAX)


def drive_blocking(library: Any, built: Built, spec: Spec) -> Trace:
    """As `drive`, with the blocking methods."""
    built.wrap = Blocking
    built.graph = Blocking(built.graph)
    return run(drive(library, built, spec))


if __name__ == "__main__":
    main()
