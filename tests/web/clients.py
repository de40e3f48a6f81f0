"""Clients of event streams: what they received, and whether they can know of everything."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx

from tests.web.processes import DEADLINE_S, Server
from tests.web.stream_checks import Told, faults_of


class Events:
    """All events received by a client of a stream, over all of its connections."""

    def __init__(self) -> None:
        self.all: list[Told] = []

    @property
    def ids(self) -> list[int]:
        return [event.id for event in self.all if event.id is not None]

    @property
    def told(self) -> list[tuple[str, Any]]:
        return [(event.name, event.data) for event in self.all]

    @property
    def last_id(self) -> str:
        return str(self.ids[-1]) if self.ids else "0"

    @property
    def names(self) -> list[str]:
        return [event.name for event in self.all]

    def read(self, lines: Iterator[str], *, until: int | None = None, behind: str = "") -> bool:
        """Read on; whether the run's end was received.

        Args:
            until: stop after so many events.
            behind: count those behind an event of this name.
        """
        block: dict[str, str] = {}
        count, counts = 0, not behind
        for line in lines:
            if line:
                key, _, value = line.partition(": ")
                block[key] = value
                continue
            if "event" in block:
                number = int(block["id"]) if "id" in block else None
                self.all.append(Told(number, block["event"], json.loads(block["data"])))
                count += counts
                counts = counts or block["event"] == behind
                if block["event"] == "end":
                    return True
            block = {}
            if until is not None and count >= until:
                return False
        return False

    def faults(self) -> Counter[str]:
        """Return the faults found; see `faults_of`."""
        return faults_of(self.all)


class Client:
    """Starts one run, and comes back to its stream wherever that was cut."""

    def __init__(self, thread_id: str, *, resumable: bool, steps: int = 20) -> None:
        self.events = Events()
        self.place = ""
        self.thread_id = thread_id
        self._body = {
            "assistant_id": "steps",
            "input": {"most": steps},
            "stream_mode": "updates",
            "stream_resumable": resumable,
            "if_not_exists": "create",
            "durability": "sync",
        }

    def read(self, made: Server, until: int | None = None, *, behind: str = "") -> bool:
        """Begin, or come back; whether the end was received. See `Events.read`."""
        with httpx.Client(base_url=made.url, timeout=DEADLINE_S) as client:
            if not self.place:
                path = f"/threads/{self.thread_id}/runs/stream"
                answer = client.stream("POST", path, json=self._body)
            else:
                last = {"Last-Event-ID": self.events.last_id}
                answer = client.stream("GET", self.place, headers=last)
            with answer as stream:
                assert stream.status_code == 200, stream.read()
                self.place = stream.headers["location"]
                return self.events.read(stream.iter_lines(), until=until, behind=behind)

    @property
    def lives(self) -> int:
        """The processes that had the run, as far as it was received."""
        return self.events.names.count("metadata")

    @property
    def steps(self) -> list[int]:
        """The steps that it received in an update."""
        return [d["step"]["done"][0] for name, d in self.events.told if name == "updates"]

    @property
    def whole(self) -> list[int]:
        """The steps of which it knows: by an update, or by a state that made up for a gap."""
        states = [data.get("done", []) for name, data in self.events.told if name == "values"]
        return sorted({*self.steps, *(step for state in states for step in state)})
