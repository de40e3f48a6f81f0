"""Checks of stored threads against a graph: one line a thread, and groups of threads alike."""

from collections.abc import Iterable

import msgspec

from actorgraph.values.graph_changes import GraphChange, ResumeVerdict

EXAMPLES_MAX = 3
"""Ids of threads that a group names."""


class ThreadCheck(msgspec.Struct, frozen=True):
    """The fate of one stored thread under a graph.

    Attributes:
        changes: of its newest checkpoint, then of the subgraphs and the runs that wait in it.
        waits: whether anything is left to run: tasks, questions, or a run of a system.
    """

    changes: tuple[GraphChange, ...]
    waits: bool

    @property
    def thread_id(self) -> str:
        """The thread that was checked, as its changes name it."""
        return self.changes[0].thread_id

    @property
    def verdict(self) -> ResumeVerdict:
        """`refused` if a part of the thread is; else `migrated` if a part is."""
        found = {change.verdict for change in self.changes}
        for verdict in (ResumeVerdict.REFUSED, ResumeVerdict.MIGRATED):
            if verdict in found:
                return verdict
        return ResumeVerdict.FITS


class ThreadReason(msgspec.Struct, frozen=True):
    """One reason why the threads of a group are refused.

    Attributes:
        text: the part of them that is in the way, and what the graph has instead.
        cure: the Migration to write, as Python; "" where none helps.
        do: advice.
    """

    text: str
    cure: str
    do: str


class ThreadGroup(msgspec.Struct, frozen=True):
    """Threads with which a graph does the same.

    Attributes:
        graph: the checked graph's name.
        stored_graph: id of the graph that stored them: another for each version.
        verdict: "fits", "migrated" or "refused".
        waits: whether they have anything left to run.
        count: number of threads.
        examples: ids of the first ones.
        migrated: sentences about what migrations change in them.
        reasons: why they are refused.
    """

    graph: str
    stored_graph: str
    verdict: ResumeVerdict
    waits: bool
    count: int
    examples: tuple[str, ...]
    migrated: tuple[str, ...]
    reasons: tuple[ThreadReason, ...]


class ThreadCheckReport(msgspec.Struct, frozen=True):
    """The result of a check of all threads of a database.

    Attributes:
        threads: number of threads that were looked at.
        waiting: those of them with anything left to run.
        refused: those of them that don't go on.
        groups: refused ones first, each kind by its number of threads.
        other_graphs: name of a graph that wasn't asked about -> number of its threads.
    """

    threads: int
    waiting: int
    refused: int
    groups: tuple[ThreadGroup, ...]
    other_graphs: dict[str, int]

    @property
    def cures(self) -> tuple[str, ...]:
        """The Migrations to write, as Python, each once."""
        reasons = [reason for group in self.groups for reason in group.reasons]
        return tuple(dict.fromkeys(reason.cure for reason in reasons if reason.cure))


_ORDER = (ResumeVerdict.REFUSED, ResumeVerdict.MIGRATED, ResumeVerdict.FITS)


class ThreadTally:
    """Counts checks by the fate of the threads."""

    def __init__(self) -> None:
        self._groups: dict[tuple[object, ...], list[str]] = {}
        self._counts: dict[tuple[object, ...], int] = {}
        self._others: dict[str, int] = {}

    def add(self, graph: str, check: ThreadCheck) -> None:
        """Count a thread of the graph with this name."""
        changes = check.changes
        key = (
            graph,
            changes[0].stored_graph,
            check.verdict,
            check.waits,
            _each_once(sentence for change in changes for sentence in change.migrated),
            _each_once(reason for change in changes for reason in reasons_of(change)),
        )
        self._counts[key] = self._counts.get(key, 0) + 1
        examples = self._groups.setdefault(key, [])
        if len(examples) < EXAMPLES_MAX:
            examples.append(check.thread_id)

    def leave_out(self, graph: str) -> None:
        """Count a thread of a graph that isn't checked."""
        self._others[graph] = self._others.get(graph, 0) + 1

    def report(self) -> ThreadCheckReport:
        """Make the report of all that was counted."""
        groups = [
            ThreadGroup(
                *key[:4],  # pyright: ignore[reportArgumentType] - as `add` makes them
                count=count,
                examples=tuple(self._groups[key]),
                migrated=key[4],  # pyright: ignore[reportArgumentType]
                reasons=key[5],  # pyright: ignore[reportArgumentType]
            )
            for key, count in self._counts.items()
        ]
        groups.sort(key=lambda group: (_ORDER.index(group.verdict), not group.waits, -group.count))
        return ThreadCheckReport(
            threads=sum(group.count for group in groups),
            waiting=sum(group.count for group in groups if group.waits),
            refused=sum(group.count for group in groups if group.verdict is ResumeVerdict.REFUSED),
            groups=tuple(groups),
            other_graphs=dict(sorted(self._others.items())),
        )


def reasons_of(change: GraphChange) -> tuple[ThreadReason, ...]:
    """Return the reasons of a change, without what differs from thread to thread."""
    return tuple(
        ThreadReason(
            f"{finding.where}, {finding.why}"
            + (f" (in {_nodes_of(finding.namespace)})" if finding.namespace else ""),
            finding.cure,
            finding.do,
        )
        for finding in change.findings
    )


def _nodes_of(namespace: str) -> str:
    """Return a subgraph's place without the ids of tasks, which each thread has for itself."""
    names = [part.partition(":")[0] for part in namespace.split("|")]
    return " / ".join(name for name in names if not name.isdecimal())


def _each_once(items: Iterable[object]) -> tuple[object, ...]:
    return tuple(dict.fromkeys(items))
