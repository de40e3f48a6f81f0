"""An oracle: an append-only list, outside of every store, of what really happened.

Nodes write `start` and `done`, readers write `ack`, a saver's double writes `stored`. A crash
of the storage can't reach it, so it judges what a reopened store says.

Labels are unique within a thread and end in ";", so that none is part of another one.
"""

import re
from collections.abc import Iterable
from typing import Any

import anyio

from actorgraph.values.commits import Commit, Request

LABEL = re.compile(rb"[a-z0-9.]+;")


class Oracle:
    """The record of all events, in order: `(what, label)`.

    Args:
        nested: whether what nested runs have stored counts by itself. Not in `exit`: there it
            counts with what the run around them stores when it leaves.
        staggers: whether siblings of a superstep end one by one, each after the one before it
            is stored, so that a crash can come between them. Not in `exit`, which stores late.
    """

    def __init__(self, *, staggers: bool = False, nested: bool = True) -> None:
        self._nested = nested
        self.lines: list[tuple[str, str]] = []
        self.crashes: list[int] = []
        self._staggers = staggers
        self._changed = anyio.Event()

    def write(self, what: str, label: str) -> None:
        self.lines.append((what, label))

    def crash(self) -> None:
        """From here on it is another process, and siblings may end together."""
        self._staggers = False
        self.crashes.append(len(self.lines))

    def stored(self, request: Request) -> None:
        """Note every label of a request that the store has acknowledged.

        Only labels of nodes that have begun: the bytes of a time may look like another one.
        """
        if isinstance(request, Commit) and (self._nested or not request.namespace):
            begun = set(self.labels("start", "done"))
            for label in labels_of(request):
                if label in begun:
                    self.write("stored", label)
            changed, self._changed = self._changed, anyio.Event()
            changed.set()

    async def wait_stored(self, label: str) -> None:
        """Wait until a sibling is stored, if siblings are staggered."""
        while self._staggers and ("stored", label) not in self.lines:
            await self._changed.wait()

    def chunk(self, chunk: dict[str, Any]) -> None:
        """Note what a delivered `updates` chunk acknowledges."""
        for update in chunk.values():
            if isinstance(update, str):  # what a call returned
                self.write("ack", update)
            if isinstance(update, dict):
                for label in update.get("log", ()):
                    self.write("ack", label)

    def labels(self, *what: str, since: int = 0, until: int | None = None) -> list[str]:
        return [label for kind, label in self.lines[since:until] if kind in what]

    @property
    def acknowledged(self) -> set[str]:
        """Labels acknowledged before the last crash."""
        return set(self.labels("ack", "stored", until=self.crashes[-1] if self.crashes else None))

    def run_again(self) -> list[str]:
        """Labels started after they had been acknowledged; must be empty."""
        seen, again = set[str](), list[str]()
        for what, label in self.lines:
            if what in {"ack", "stored"}:
                seen.add(label)
            elif what == "start" and label in seen:
                again.append(label)
        return again


def labels_of(commit: Commit) -> Iterable[str]:
    """The labels whose bytes are in a commit's rows."""
    rows = [row.payload for row in commit.ledger]
    for point in commit.checkpoints:
        rows += [row.payload for row in (*point.blobs, *point.ranges)]
    return dict.fromkeys(label.decode() for row in rows for label in LABEL.findall(row))
