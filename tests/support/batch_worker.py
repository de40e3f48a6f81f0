"""`python -m tests.support.batch_worker`: one pass over a batch of threads, to be killed.

It appends to a ledger, line by line, each line before the next thing happens:

run KEY    a node with a side effect is called
ack KEY    the batch has given a result of this thread, which is done
"""

import argparse
import os
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import anyio
import anyio.lowlevel

from actorgraph import ActorSystem, PostgresSaver, SqliteSaver
from tests.support.graphs import in_a_row
from tests.support.source_files import ROOT
from tests.support.warm_processes import popen

PASS_SECONDS_MAX = 300.0
STOP_SECONDS_MAX = 60.0
"""From a signal to the process's end; far above what a busy machine needs."""
POLL_SECONDS = 0.002
LEASE_S = 1.0


class State(TypedDict, total=False):
    """The state of one thread."""

    number: int
    half: int
    whole: int


def graph_of(ledger: int) -> Any:
    """Two nodes, the second one with a side effect."""

    async def first(state: State) -> State:
        return {"half": state["number"] * 2}

    async def second(state: State) -> State:
        os.write(ledger, f"run {state['number']}\n".encode())
        await anyio.lowlevel.checkpoint()
        return {"whole": state["half"] + 1}

    return in_a_row({"first": first, "second": second}, schema=State)


async def one_pass(given: argparse.Namespace) -> None:
    """Map all inputs, and acknowledge each result."""
    ledger = os.open(given.ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    graph = graph_of(ledger)
    saver: Any = (
        PostgresSaver(given.place, schema=given.schema)
        if given.schema
        else SqliteSaver(given.place)
    )
    inputs = ({"number": number} for number in range(given.threads))
    options: Any = {
        "key": lambda one: one["number"],
        "name": "b",
        "progress": True,
        "total": given.threads,
        "concurrency": given.concurrency,
    }

    async def read(batch: Any) -> None:
        async with batch:
            async for result in batch:
                if result.status == "done":
                    assert result.output["whole"] == int(result.key) * 2 + 1
                    os.write(ledger, f"ack {result.key}\n".encode())
                else:
                    print(f"{result.key}: {result.status}: {result.error!r}", file=sys.stderr)
        print((await batch.summary()).counts.to_dict())

    if given.system:
        async with ActorSystem({"g": graph}, saver=saver, lease_s=LEASE_S) as system:
            await read(system.map("g", inputs, **options))
    else:
        async with saver:
            await read(graph.copy({"checkpointer": saver}).amap_threads(inputs, **options))


@dataclass(frozen=True)
class BatchPlace:
    """A batch's store and ledger, and how to run a pass over it."""

    folder: Path
    backend: str
    threads: int
    system: bool = False
    url: str = ""
    schema: str = ""
    concurrency: int = 16

    @property
    def ledger(self) -> Path:
        return self.folder / "ledger"

    def start(self) -> subprocess.Popen[str]:
        """Start a pass in a process of its own."""
        return popen(
            [
                *("-m", "tests.support.batch_worker", self.backend),
                *(self.url or str(self.folder / "runs.db"), str(self.ledger), str(self.threads)),
                *("--schema", self.schema, "--concurrency", str(self.concurrency)),
                *(("--system",) if self.system else ()),
            ],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self) -> str:
        """Run a pass to its end; returns what it printed."""
        with self.start() as process:
            printed, errors = process.communicate(timeout=PASS_SECONDS_MAX)
        assert process.returncode == 0, errors
        assert "failed:" not in errors, errors
        return printed

    def stop_at(self, acknowledged: int, signal: int) -> str:
        """Start a pass, and send a signal when so many threads were acknowledged by all passes.

        Returns: what it wrote to standard error.
        """
        deadline = time.monotonic() + PASS_SECONDS_MAX
        with self.start() as process:
            while len(self.acknowledged()) < acknowledged and process.poll() is None:
                assert time.monotonic() < deadline, f"never {acknowledged} results"
                time.sleep(POLL_SECONDS)
            assert process.poll() is None, (process.stderr and process.stderr.read(), "ended early")
            process.send_signal(signal)
            try:
                _, errors = process.communicate(timeout=STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                process.kill()  # else the end of `with` waits for it
                raise
        assert process.returncode != 0
        return errors

    def lines(self) -> list[str]:
        return self.ledger.read_text("utf-8").splitlines() if self.ledger.exists() else []

    def acknowledged(self) -> set[str]:
        return {line[4:] for line in self.lines() if line.startswith("ack ")}

    def runs(self) -> Counter[str]:
        return Counter(line[4:] for line in self.lines() if line.startswith("run "))


def run_after_ack(lines: list[str]) -> list[str]:
    """The keys whose side effect came again after their result had been given."""
    given, again = set[str](), list[str]()
    for line in lines:
        what, _, key = line.partition(" ")
        if what == "ack":
            given.add(key)
        elif key in given:
            again.append(key)
    return again


def main() -> None:
    """Read the command line, and run one pass."""
    parser = argparse.ArgumentParser()
    parser.add_argument("backend")
    parser.add_argument("place")
    parser.add_argument("ledger")
    parser.add_argument("threads", type=int)
    parser.add_argument("--schema", default="")
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--system", action="store_true")
    given = parser.parse_args()
    anyio.run(one_pass, given, backend=given.backend)


if __name__ == "__main__":
    main()
