"""Servers in processes of their own, to be looked into, killed and started again."""

import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).parents[2]
DEADLINE_S = 30


class Server:
    """`tests.web.inspected_app` as a process, with its address."""

    def __init__(self, kind: str, path: Path, **limits: Any) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.web.inspected_app", kind, str(path), json.dumps(limits)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=ROOT,
        )
        self.said: list[str] = []
        self.url = self._address()
        self._rest = threading.Thread(target=self._read, daemon=True)
        self._rest.start()

    def _address(self) -> str:
        for line in self.process.stdout or ():
            self.said.append(line)
            found = re.search(r"running on (http://[\d.:]+)", line, re.IGNORECASE)
            if found:
                return found.group(1)
        raise AssertionError("".join(self.said))

    def _read(self) -> None:
        self.said.extend(self.process.stdout or ())

    def kill(self) -> None:
        """As when the power fails, for this process."""
        self.process.kill()
        self.end()

    def stop(self) -> None:
        """SIGTERM."""
        self.process.terminate()
        self.end()

    def end(self) -> None:
        """Wait until it is gone."""
        self.process.wait(DEADLINE_S)
        self._rest.join(DEADLINE_S)
        if self.process.stdout is not None:
            self.process.stdout.close()

    def inside(self) -> dict[str, Any]:
        return httpx.get(f"{self.url}/inside", timeout=DEADLINE_S).json()


@contextmanager
def server(kind: str, path: Path, **limits: Any) -> Iterator[Server]:
    made = Server(kind, path, **limits)
    try:
        yield made
    finally:
        if made.process.poll() is None:
            made.kill()


class Events:
    """What a client of a stream was told, over all of its connections.

    Attributes:
        ids: of each event that has one; told: names and data.
    """

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.told: list[tuple[str, Any]] = []

    @property
    def last_id(self) -> str:
        return str(self.ids[-1]) if self.ids else "0"

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.told]

    def read(self, lines: Iterator[str], *, until: int | None = None) -> bool:
        """Read on; whether the run's end was told.

        Args:
            until: stop after so many events.
        """
        block: dict[str, str] = {}
        count = 0
        for line in lines:
            if line:
                key, _, value = line.partition(": ")
                block[key] = value
                continue
            if "event" in block:
                self.told.append((block["event"], json.loads(block["data"])))
                if "id" in block:
                    self.ids.append(int(block["id"]))
                count += 1
                if block["event"] == "end":
                    return True
            block = {}
            if until is not None and count >= until:
                return False
        return False


class Client:
    """Starts one run, and comes back to its stream wherever that was cut."""

    def __init__(self, thread_id: str, *, resumable: bool, steps: int = 20) -> None:
        self.events = Events()
        self.place = ""
        self._thread_id = thread_id
        self._body = {
            "assistant_id": "steps",
            "input": {"most": steps},
            "stream_mode": "updates",
            "stream_resumable": resumable,
            "if_not_exists": "create",
            "durability": "sync",
        }

    def read(self, made: Server, until: int | None = None) -> bool:
        """Begin, or come back; whether the end was told."""
        with httpx.Client(base_url=made.url, timeout=DEADLINE_S) as client:
            if not self.place:
                path = f"/threads/{self._thread_id}/runs/stream"
                answer = client.stream("POST", path, json=self._body)
            else:
                last = {"Last-Event-ID": self.events.last_id}
                answer = client.stream("GET", self.place, headers=last)
            with answer as stream:
                assert stream.status_code == 200, stream.read()
                self.place = stream.headers["location"]
                return self.events.read(stream.iter_lines(), until=until)

    @property
    def steps(self) -> list[int]:
        """The steps of which it was told, by an update."""
        return [d["step"]["done"][0] for name, d in self.events.told if name == "updates"]

    @property
    def whole(self) -> list[int]:
        """The steps of which it knows: by an update, or by a state that made up for a gap."""
        states = [data.get("done", []) for name, data in self.events.told if name == "values"]
        return sorted({*self.steps, *(step for state in states for step in state)})
