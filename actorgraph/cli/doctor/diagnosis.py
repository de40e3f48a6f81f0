"""Diagnosis: one finding of `actorgraph doctor`, and the list of all codes."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
"""error: it fails, or loses data. warning: it fails or is slow in a case that may come. note: it
may be meant so."""

CODES: dict[str, str] = {
    "program.not-importable": "The program can't be imported",
    "extra.missing": "A package that the program needs isn't installed",
    "node.blocking-call": "An async node blocks the event loop",
    "node.file-call": "An async node reads or writes files without a thread",
    "node.backend-mismatch": "A node calls functions of the other backend",
    "node.unknown-key": "A node returns a key that the state doesn't have",
    "graph.unreachable": "No path leads to a node",
    "graph.join-never-completes": "A join waits for a node that can't have run",
    "graph.join-of-alternatives": "A join waits for nodes of which a router chooses one",
    "graph.no-way-to-end": "A cycle without a way out",
    "graph.open-route": "A router doesn't declare its destinations",
    "graph.no-saver": "A graph that pauses has no saver",
    "graph.durability-exit": "A crash repeats the effects of a run with durability exit",
    "state.unstorable-type": "A type of the state can't be stored",
    "input.unstorable-value": "A value of the input can't be stored",
    "input.unknown-key": "The input has a key that the state doesn't have",
    "saver.unreachable": "The database can't be opened",
    "saver.not-writable": "The database can't be written",
    "saver.old-schema": "The tables are of an older version of actorgraph",
    "saver.new-schema": "The tables are of a newer version of actorgraph",
    "saver.not-a-database": "The database has no tables of actorgraph",
    "saver.network-filesystem": "A SQLite file is on a network file system",
    "saver.no-wal": "A SQLite database isn't in WAL mode",
    "saver.shared-sqlite": "Several systems share one SQLite file",
    "saver.no-key": "Stored values are encrypted and the key is missing",
    "saver.long-history": "A thread has a long history",
    "saver.no-retention": "Old checkpoints are never removed",
    "threads.refused": "Stored threads don't go on under the program's graph",
    "settings.refused": "Stored assistants or crons don't fit the program's graph",
    "runs.unserved": "Runs wait for a graph or a build that the system doesn't have",
    "runs.orphaned": "Open runs have no living system",
    "runs.parked": "Runs were given up",
    "runs.long-open": "Runs have been open for a long time",
    "lease.too-short": "A lease is too short",
    "web.no-access-rules": "Every client may read and change every thread",
    "web.no-rate-limit": "Clients may send any number of requests",
    "web.any-origin": "Pages of every site may call the server",
    "web.studio-hosts": "The studio doesn't answer under the name of its server",
}
"""Code -> title, in the order of the report; docs/doctor.md has a section for each."""

_ORDER = {code: place for place, code in enumerate(CODES)}


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One finding.

    Attributes:
        code: a key of `CODES`.
        severity: a `Severity`.
        culprit: the node, key, file, run or setting that it is about.
        text: the fact that was found.
        do: the remedy.
        file: where it is in the program; "" if unknown.
        line: in that file; 0 if unknown.
    """

    code: str
    severity: Severity
    culprit: str
    text: str
    do: str
    file: str = ""
    line: int = 0


def in_order(found: Iterable[Diagnosis]) -> list[Diagnosis]:
    """Return findings without duplicates: errors first, then in the order of `CODES`."""
    unique = dict.fromkeys(found)
    return sorted(unique, key=lambda d: (SEVERITIES.index(d.severity), _ORDER[d.code]))
