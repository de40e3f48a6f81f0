"""One measurement in one fresh process: a request as JSON in, figures as JSON out.

Receives   one argument: {"kind", "library", "name", "path", "backend", "arguments"}
Prints     one line of JSON, the last on stdout: the workload's figures and the collector's state
Runs in    the project's environment or LangGraph's, so it and what it imports use nothing
           but the standard library and the measured library (anyio for the mailboxes
           and the waiting tasks only).
"""

import gc
import json
import sys
from pathlib import Path
from typing import Any

from tests.bench import floors, gathering, workloads
from tests.bench.libraries import load, versions


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Carry out a request: a workload of a library, a floor on a database, or a mailbox."""
    path = Path(request["path"])
    match request["kind"]:
        case "workload":
            library = load(request["library"])
            workload = getattr(workloads, request["name"])

            async def main() -> dict[str, Any]:
                return await workload(library, path, **request["arguments"])

            figures = gathering.run(request["backend"], main)
            return {**figures, "versions": versions(library.name)}
        case "floor":
            return floors.replay(path, **request["arguments"])
        case "waiting":
            from tests.bench import waiting

            async def main() -> dict[str, Any]:
                return await waiting.replay(path, **request["arguments"])

            return gathering.run(request["backend"], main)
        case "mailbox":
            from tests.bench import mailboxes

            mailbox = getattr(mailboxes, request["name"])

            async def main() -> dict[str, Any]:
                return await mailbox(**request["arguments"])

            return gathering.run(request["backend"], main)
    raise SystemExit(f"unknown kind of request: {request['kind']}")


if __name__ == "__main__":
    figures = answer(json.loads(sys.argv[1]))
    print(json.dumps({**figures, "gc": [gc.isenabled(), *gc.get_threshold()]}))
