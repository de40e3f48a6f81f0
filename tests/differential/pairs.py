"""The two workers, each in a process and an environment of its own."""

import json
import subprocess
from typing import Any, NamedTuple

from tests.differential.trace import Spec, Trace
from tests.support.source_files import ROOT


class Worker:
    """A process that answers specs with traces; it ends with this one."""

    def __init__(self, python: str, library: str, driver: str = "async") -> None:
        command = [python, "-m", "tests.differential.worker", library, driver]
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, spec: Spec) -> None:
        """Hand over a spec."""
        assert self._process.stdin
        print(json.dumps(spec), file=self._process.stdin, flush=True)

    def answer(self) -> Any:
        """The trace of the oldest spec that has none yet."""
        assert self._process.stdout
        line = self._process.stdout.readline()
        assert line, f"the worker ended with {self._process.poll()}"
        return json.loads(line)

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


class Pair(NamedTuple):
    """One worker per library."""

    ours: Worker
    theirs: Worker

    def traces(self, spec: Spec) -> tuple[Trace, Trace]:
        """Run a spec in both; they work at the same time."""
        self.ours.ask(spec)
        self.theirs.ask(spec)
        return self.ours.answer(), self.theirs.answer()

    def close(self) -> None:
        """End both processes."""
        self.ours.close()
        self.theirs.close()
