"""A server under load, stopped by SIGTERM: what its clients received, and what it kept."""

import json
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.support.warm_processes import WEB, popen
from tests.web.steps_app import STEPS, system

ROOT = Path(__file__).parents[2]
SERVERS = {
    "uvicorn": ["uvicorn", "tests.web.steps_app:app", "--port", "0"],
    "hypercorn on asyncio": ["tests.web.steps_app", "asyncio"],
    "hypercorn on trio": ["tests.web.steps_app", "trio"],
}
_COMMAND = ["hypercorn", "tests.web.steps_app:app", "--bind", "127.0.0.1:0"]
COMMANDS = {
    "hypercorn's command": _COMMAND,
    "hypercorn's command on trio": [*_COMMAND, "--worker-class", "trio"],
    "hypercorn's command with two workers": [*_COMMAND, "--workers", "2"],
}
"""Servers whose worker processes get no signal."""
DEADLINE_S = 15


class Reader:
    """A client that streams a run and remembers what it received.

    Attributes:
        acknowledged: steps that it received. events: the names of all events.
        cut: what was wrong with the end of the response, if anything.
    """

    def __init__(
        self, url: str, thread_id: str, started: threading.Barrier, graph: str = "steps"
    ) -> None:
        self.thread_id = thread_id
        self.graph = graph
        self.acknowledged = 0
        self.events: list[str] = []
        self.cut = ""
        self._url = url
        self._started = started
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self) -> None:
        try:
            self._follow()
        except httpx.HTTPError as error:
            self.cut = repr(error)

    def _follow(self) -> None:
        modes = ["updates", "tasks"]
        body = {"assistant_id": self.graph, "input": {}, "stream_mode": modes}
        body |= {"if_not_exists": "create", "stream_resumable": True}
        path = f"{self._url}/threads/{self.thread_id}/runs/stream"
        first = "updates" if self.graph == "steps" else "tasks"
        waiting, last = True, ""
        with httpx.Client(timeout=30) as client, client.stream("POST", path, json=body) as answer:
            for last in answer.iter_lines():
                if last.startswith("event: "):
                    self.events.append(last.removeprefix("event: "))
                elif last.startswith("data: ") and self.events[-1] == "updates":
                    self.acknowledged += "step" in json.loads(last.removeprefix("data: "))
                if waiting and last.startswith("data: ") and self.events[-1] == first:
                    waiting = False
                    self._started.wait(20)
        if last:  # an event ends with an empty line
            self.cut = f"the stream ends with {last!r}"


class Starter:
    """A client that starts run after run, and remembers which were accepted.

    Attributes:
        accepted: their threads. refused: status and `Retry-After` of each refusal.
        unheard: requests that no server took, or that got no answer.
    """

    def __init__(self, url: str, name: str) -> None:
        self.accepted: list[str] = []
        self.refused: list[tuple[int, str | None]] = []
        self.unheard = 0
        self._url = url
        self._name = name
        self._over = threading.Event()
        self.thread = threading.Thread(target=self._start, daemon=True)
        self.thread.start()

    def _start(self) -> None:
        with httpx.Client(timeout=30) as client:
            while not self._over.wait(0.02):
                self._ask(client, f"{self._name}.{len(self.accepted)}")

    def _ask(self, client: httpx.Client, thread_id: str) -> None:
        body = {"assistant_id": "steps", "input": {}, "if_not_exists": "create"}
        try:
            answer = client.post(f"{self._url}/threads/{thread_id}/runs", json=body)
        except httpx.TransportError:
            self.unheard += 1
            return
        if answer.status_code == httpx.codes.OK:
            self.accepted.append(thread_id)
        else:
            self.refused.append((answer.status_code, answer.headers.get("retry-after")))

    def end(self) -> None:
        """Start no more."""
        self._over.set()
        self.thread.join(35)


@dataclass(frozen=True)
class Stopped:
    """A server that was stopped under load, and what its clients received.

    Attributes:
        code: its exit code. seconds: from the signal to its exit.
    """

    readers: list[Reader]
    starters: list[Starter]
    code: int
    seconds: float

    @property
    def accepted(self) -> list[str]:
        """The threads whose runs were accepted."""
        streamed = [reader.thread_id for reader in self.readers]
        return streamed + [thread for starter in self.starters for thread in starter.accepted]

    @property
    def refused(self) -> list[tuple[int, str | None]]:
        """Answers to requests that came too late."""
        return [refusal for starter in self.starters for refusal in starter.refused]


@contextmanager
def serving(server: str, path: Path, **environ: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server in a process of its own, over a file; the process and the address."""
    environment = {**os.environ, "RUNS_DB": str(path), "PYTHONUNBUFFERED": "1", **environ}
    environment["PYTHONPATH"] = str(ROOT)
    process = popen(
        ["-m", *(SERVERS | COMMANDS)[server]],
        WEB,
        stderr=subprocess.STDOUT,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=ROOT,
    )
    assert process.stdout is not None
    try:
        yield process, _address(process.stdout)
    finally:
        process.kill()
        process.communicate()


def stopped_under_load(
    server: str,
    path: Path,
    runs: int,
    starters: int = 0,
    *,
    graph: str = "steps",
    number: signal.Signals = signal.SIGTERM,
    drain_s: float = 10,
) -> Stopped:
    """Start a server and runs on it, and send a signal while they go on."""
    with serving(server, path, GRAPH=graph, DRAIN_S=str(drain_s)) as (process, url):
        started = threading.Barrier(runs + 1)
        begins = [Starter(url, f"s{n}") for n in range(starters)]
        readers = [Reader(url, f"t{n}", started, graph) for n in range(runs)]
        started.wait(30)
        process.send_signal(number)
        begun = time.monotonic()
        said, _ = process.communicate(timeout=DEADLINE_S + 30)
        seconds = time.monotonic() - begun
        for starter in begins:
            starter.end()
        for reader in readers:
            reader.thread.join(10)
    assert "Traceback" not in said, said
    return Stopped(readers, begins, process.returncode, seconds)


def _address(output: Any) -> str:
    said = ""
    for line in output:
        said += line
        found = re.search(r"running on (http://[\d.:]+)", line, re.IGNORECASE)
        if found:
            return found.group(1)
    raise AssertionError(said)


def finished_by_the_next(server: str, path: Path, threads: list[str], patience_s: float) -> int:
    """How many of these threads a new server on the same file brings to their end."""
    waiting, end = set(threads), time.monotonic() + patience_s
    with serving(server, path) as (process, url), httpx.Client(timeout=30) as client:
        while waiting and time.monotonic() < end:
            for thread_id in sorted(waiting):
                answer = client.get(f"{url}/threads/{thread_id}/state")
                done = answer.json()["values"].get("done") if answer.is_success else None
                if done == list(range(STEPS)):
                    waiting.discard(thread_id)
                elif answer.is_success:
                    break  # those behind it have not begun before it
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=DEADLINE_S + 30)
    return len(threads) - len(waiting)


async def lost(path: Path, readers: list[Reader]) -> int:
    """How many acknowledged steps are not in the store; every thread's are in order."""
    missing = 0
    async with system(str(path)) as again:
        for reader in readers:
            config = {"configurable": {"thread_id": reader.thread_id}}
            state = await again.graphs["steps"].aget_state(config)
            done = state.values.get("done", [])
            assert done == list(range(len(done)))
            missing += max(0, reader.acknowledged - len(done))
    return missing


async def finished_elsewhere(path: Path, readers: list[Reader]) -> int:
    """How many of the runs another system brings to their end."""
    async with system(str(path)) as again:
        for run in await again.recover():
            await run.wait(30)
        ended = 0
        for reader in readers:
            config = {"configurable": {"thread_id": reader.thread_id}}
            state = await again.graphs["steps"].aget_state(config)
            ended += state.values.get("done") == list(range(STEPS))
        return ended
