"""A Python process that has imported its libraries, and forks for each program.

    python -m tests.support.warm_python "import a" < orders

An order is a line of JSON: the paths of a program and of its output and errors. The answer is a
line with its exit code. Each program runs in a fork of its own, as if it had just been started:
only the imports are shared, which take longer than most programs.
"""

import builtins
import json
import os
import sys
import traceback
from pathlib import Path
from types import FunctionType, ModuleType


def main() -> None:
    """Import, then run a program for each order."""
    run_text(sys.argv[1], {})
    print("ready", flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if not child:
            os._exit(run(order))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def run(order: dict[str, str]) -> int:
    """Run a program in this process; returns its exit code."""
    for number, name in ((1, "output"), (2, "errors")):
        to = os.open(order[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(to, number)
        os.close(to)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    sys.argv = ["-"]
    sys.modules["__main__"] = module = ModuleType("__main__")
    code = 0
    try:
        run_text(Path(order["program"]).read_text("utf-8"), vars(module))
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 - shown, as the interpreter would
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def run_text(program: str, names: dict[str, object]) -> None:
    """Run a program of the tests; its module has the built-in names, as the interpreter's has."""
    names.setdefault("__builtins__", builtins)
    FunctionType(compile(program, "<stdin>", "exec"), names)()


if __name__ == "__main__":
    main()
