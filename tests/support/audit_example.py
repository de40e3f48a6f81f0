"""Start the audit example, kill it, and read what it left behind.

Invariant  an oracle is append-only and survives a `kill -9`, so it says what really happened.
"""

import subprocess
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from audit.markdown import strip_run_section
from tests.support.source_files import ROOT
from tests.support.warm_processes import popen

SCRIPT = ROOT / "examples" / "audit_packages.py"
# On an idle machine a whole audit of the standard library takes less than ten seconds.
RUN_SECONDS_MAX = 120.0
POLL_SECONDS = 0.002


@dataclass(frozen=True)
class Place:
    """A folder with one audit's database, reports and oracle, and how to run it."""

    folder: Path
    targets: tuple[str, ...]
    backend: str
    durability: str = "sync"

    @property
    def oracle(self) -> Path:
        return self.folder / "oracle"

    def start(self, *options: str) -> subprocess.Popen[str]:
        """Start the program in a process of its own."""
        self.folder.mkdir(parents=True, exist_ok=True)
        files = ("--db", "audit.db", "--out", "reports", "--oracle", "oracle", "--no-progress")
        modes = ("--backend", self.backend, "--durability", self.durability)
        return popen(
            [SCRIPT, *self.targets, *files, *modes, *options],
            cwd=self.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *options: str, answers: str = "") -> str:
        """Run the program to its end, and return what it printed."""
        with self.start(*options) as process:
            printed, _ = process.communicate(answers, timeout=RUN_SECONDS_MAX)
        assert process.returncode == 0, printed
        return printed

    def kill_after(self, seconds: float, *, once: int = 0) -> bool:
        """Start the program, and `kill -9` it some seconds later.

        Args:
            once: count the seconds from when the oracle has so many "done" lines.
        Returns: False when it had ended by then.
        """
        with self.start() as process:
            self.wait_for("done", once, process)
            try:
                process.wait(timeout=seconds)
            except subprocess.TimeoutExpired:
                process.kill()
                return True
            assert process.returncode == 0, process.stdout and process.stdout.read()
            return False

    def wait_for(self, what: str, count: int, process: subprocess.Popen[str]) -> float:
        """Wait until the oracle has so many lines of a kind, or the process has ended.

        Returns: the moment, on the monotonic clock.
        """
        deadline = time.monotonic() + RUN_SECONDS_MAX
        while self.lines()[what] < count and process.poll() is None:
            assert time.monotonic() < deadline, f"no {count} lines of {what!r}"
            time.sleep(POLL_SECONDS)
        return time.monotonic()

    def stop_when(self, what: str, count: int, signal: int) -> int:
        """Start the program, and send a signal once the oracle has so many lines of a kind.

        Returns: the exit status.
        """
        with self.start() as process:
            self.wait_for(what, count, process)
            process.send_signal(signal)
            process.communicate(timeout=RUN_SECONDS_MAX)
        return process.returncode

    def oracle_text(self) -> str:
        return self.oracle.read_text("utf-8") if self.oracle.exists() else ""

    def lines(self) -> Counter[str]:
        """How many lines of each kind the oracle has: start, done, ack."""
        return Counter(line.split(" ", 1)[0] for line in self.oracle_text().splitlines())

    def reports(self) -> dict[str, str]:
        """Every report's text, without what may differ from run to run."""
        folder = self.folder / "reports"
        return {
            path.relative_to(folder).as_posix(): strip_run_section(path.read_text("utf-8"))
            for path in sorted(folder.rglob("*.*"))
            if path.suffix in {".md", ".html"}
        }


def parsed_again(oracle: str) -> list[str]:
    """The files that were parsed after it was acknowledged that they never need to be."""
    acknowledged, again = set[str](), list[str]()
    for line in oracle.splitlines():
        what, _, file = line.partition(" ")
        if what == "ack":
            acknowledged.add(file)
        elif what == "start" and file in acknowledged:
            again.append(file)
    return again
