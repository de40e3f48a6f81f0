"""A server under load, stopped by SIGTERM: what its clients were told, and what it kept."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import httpx

from tests.web.steps_app import STEPS, system

ROOT = Path(__file__).parents[2]
SERVERS = {
    "uvicorn": ["uvicorn", "tests.web.steps_app:app", "--port", "0"],
    "hypercorn on asyncio": ["tests.web.steps_app", "asyncio"],
    "hypercorn on trio": ["tests.web.steps_app", "trio"],
}
DEADLINE_S = 15


class Reader:
    """A client that streams a run and remembers what it was told."""

    def __init__(self, url: str, thread_id: str, started: threading.Barrier) -> None:
        self.thread_id = thread_id
        self.acknowledged = 0
        self.events: list[str] = []
        self._url = url
        self._started = started
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self) -> None:
        body = {"assistant_id": "steps", "input": {}, "stream_mode": "updates"}
        body |= {"if_not_exists": "create", "stream_resumable": True}
        path = f"{self._url}/threads/{self.thread_id}/runs/stream"
        waiting = True
        with httpx.Client(timeout=30) as client, client.stream("POST", path, json=body) as answer:
            for line in answer.iter_lines():
                if line.startswith("event: "):
                    self.events.append(line.removeprefix("event: "))
                elif line.startswith("data: ") and self.events[-1] == "updates":
                    self.acknowledged += "step" in json.loads(line.removeprefix("data: "))
                    if waiting:
                        waiting = False
                        self._started.wait(20)


def stopped_under_load(server: str, path: Path, runs: int) -> tuple[list[Reader], int, float]:
    """Start a server and runs on it, send SIGTERM while they go on; readers, exit code, seconds."""
    environment = {**os.environ, "RUNS_DB": str(path), "PYTHONUNBUFFERED": "1"}
    environment["PYTHONPATH"] = str(ROOT)
    process = subprocess.Popen(
        [sys.executable, "-m", *SERVERS[server]],
        stderr=subprocess.STDOUT,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=ROOT,
    )
    assert process.stdout is not None
    url = _address(process.stdout)
    started = threading.Barrier(runs + 1)
    readers = [Reader(url, f"t{n}", started) for n in range(runs)]
    started.wait(30)
    process.send_signal(signal.SIGTERM)
    begun = time.monotonic()
    said, _ = process.communicate(timeout=DEADLINE_S + 30)
    seconds = time.monotonic() - begun
    for reader in readers:
        reader.thread.join(10)
    assert "Traceback" not in said, said
    return readers, process.returncode, seconds


def _address(output: Any) -> str:
    said = ""
    for line in output:
        said += line
        found = re.search(r"running on (http://[\d.:]+)", line, re.IGNORECASE)
        if found:
            return found.group(1)
    raise AssertionError(said)


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
