"""Checks of stored threads and settings against a graph, and groups of those alike."""

from collections.abc import Iterable

import msgspec

from actorgraph.values.graph_changes import Finding, GraphChange, ResumeVerdict

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


class SettingsGroup(msgspec.Struct, frozen=True):
    """Assistants or crons of a server with which a graph does the same.

    Attributes:
        kind: "assistant" or "cron".
        graph: the checked graph's name.
        verdict: "fits", "migrated" or "refused".
        count: number of them.
        examples: ids of the first ones.
        reasons: why their runs are refused.
    """

    kind: str
    graph: str
    verdict: ResumeVerdict
    count: int
    examples: tuple[str, ...]
    reasons: tuple[ThreadReason, ...]


class ThreadCheckReport(msgspec.Struct, frozen=True):
    """The result of a check of all threads of a database, and of what a server stores.

    Attributes:
        threads: number of threads that were looked at.
        waiting: those of them with anything left to run.
        refused: those of them that don't go on.
        groups: refused ones first, each kind by its number of threads.
        other_graphs: name of a graph that wasn't asked about -> number of its threads.
        settings: assistants and crons in the program's store, in the order of `groups`; empty
            without a store.
        other_settings: name of a graph that wasn't asked about -> number of its assistants and
            crons; "" for crons without an assistant.
    """

    threads: int
    waiting: int
    refused: int
    groups: tuple[ThreadGroup, ...]
    other_graphs: dict[str, int]
    settings: tuple[SettingsGroup, ...] = ()
    other_settings: dict[str, int] = {}

    @property
    def refused_settings(self) -> int:
        """Number of assistants and crons whose runs are refused."""
        refused = [one for one in self.settings if one.verdict is ResumeVerdict.REFUSED]
        return sum(one.count for one in refused)

    @property
    def cures(self) -> tuple[str, ...]:
        """The Migrations to write, as Python, each once."""
        reasons = [reason for group in (*self.groups, *self.settings) for reason in group.reasons]
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


class SettingsTally:
    """Counts assistants and crons by what a graph does with them."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, str, ResumeVerdict, tuple[ThreadReason, ...]], list[str]] = {}
        self._others: dict[str, int] = {}

    def add(self, kind: str, graph: str, identifier: str, found: Finding | ResumeVerdict) -> None:
        """Count an assistant or a cron.

        Args:
            found: why its runs are refused, or the verdict if they aren't.
        """
        refused = isinstance(found, Finding)
        verdict = ResumeVerdict.REFUSED if refused else found
        key = (kind, graph, verdict, _reasons((found,)) if refused else ())
        self._groups.setdefault(key, []).append(identifier)

    def leave_out(self, graph: str) -> None:
        """Count an assistant or a cron of a graph that isn't checked."""
        self._others[graph] = self._others.get(graph, 0) + 1

    def added_to(self, report: ThreadCheckReport) -> ThreadCheckReport:
        """Return a report of threads with all that was counted."""
        groups = [
            SettingsGroup(
                kind, graph, verdict, len(ids), tuple(sorted(ids)[:EXAMPLES_MAX]), reasons
            )
            for (kind, graph, verdict, reasons), ids in self._groups.items()
        ]
        groups.sort(key=lambda group: (_ORDER.index(group.verdict), group.kind, -group.count))
        others = dict(sorted(self._others.items()))
        return msgspec.structs.replace(report, settings=tuple(groups), other_settings=others)


def reasons_of(change: GraphChange) -> tuple[ThreadReason, ...]:
    """Return the reasons of a change, without what differs from thread to thread."""
    return _reasons(change.findings)


def _reasons(findings: Iterable[Finding]) -> tuple[ThreadReason, ...]:
    return tuple(
        ThreadReason(
            f"{finding.where}, {finding.why}"
            + (f" (in {_nodes_of(finding.namespace)})" if finding.namespace else ""),
            finding.cure,
            finding.do,
        )
        for finding in findings
    )


def _nodes_of(namespace: str) -> str:
    """Return a subgraph's place without the ids of tasks, which each thread has for itself."""
    names = [part.partition(":")[0] for part in namespace.split("|")]
    return " / ".join(name for name in names if not name.isdecimal())


def _each_once(items: Iterable[object]) -> tuple[object, ...]:
    return tuple(dict.fromkeys(items))
