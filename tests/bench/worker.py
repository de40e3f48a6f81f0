"""One measurement in one fresh process: a request as JSON in, figures as JSON out.

Receives   one argument: {"kind", "library", "name", "path", "backend", "arguments"}
Prints     one line of JSON, the last on stdout: the workload's figures and the collector's state
Runs in    the project's environment or in a library's own, so it and what it imports use nothing
           but the standard library and the measured library (anyio for the mailboxes
           and the waiting tasks only). A workload without `async` gets no event loop.
"""

import gc
import inspect
import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.bench import gathering
from tests.bench.libraries import load, versions


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Carry out a request: a workload of a library, a floor on a database, or a mailbox."""
    path = Path(request["path"])
    match request["kind"]:
        case "workload":
            figures = call(request, request["name"], "workloads", load(request["library"]), path)
            return {**figures, "versions": versions(request["library"])}
        case "peer":
            figures = call(request, request["name"], "peers", request["library"], path)
            return {**figures, "versions": versions(request["library"])}
        case "floor" | "waiting" as kind:
            module = "floors" if kind == "floor" else kind
            return call(request, f"{module}.replay", module, path)
        case "mailbox":
            return call(request, request["name"], "mailboxes")
    raise SystemExit(f"unknown kind of request: {request['kind']}")


def call(request: dict[str, Any], name: str, default_module: str, *given: Any) -> dict[str, Any]:
    """Call a function of this folder with the request's arguments, on a loop if it is async."""
    module, _, function_name = name.rpartition(".")
    function = getattr(import_module(f"tests.bench.{module or default_module}"), function_name)

    def program() -> Any:
        return function(*given, **request["arguments"])

    if inspect.iscoroutinefunction(function):
        return gathering.run(request["backend"], program)
    return program()


if __name__ == "__main__":
    figures = answer(json.loads(sys.argv[1]))
    print(json.dumps({**figures, "gc": [gc.isenabled(), *gc.get_threshold()]}))
