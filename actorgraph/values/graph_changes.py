"""Changes of a graph as data: whether a resume of a stored thread goes on under it.

`GraphChange` is the answer of `change_of` (`superstep.changes.change`), which every caller asks:
the resume and its error, the command that checks threads before a deployment, recovery.
"""

from enum import StrEnum

import msgspec


class ResumeVerdict(StrEnum):
    """The fate of a stored thread under a graph; its value is the text to show."""

    FITS = "fits"
    """It goes on as it is."""
    MIGRATED = "migrated"
    """It goes on, by the graph's migrations."""
    REFUSED = "refused"
    """It does not go on: see the findings."""


class FindingKind(StrEnum):
    """The kinds of parts that a stored thread has and the graph doesn't."""

    NODE = "node"
    CHANNEL = "channel"
    JOIN = "join"
    TASK = "task"
    VALUE = "value"
    TOOL = "tool"


class Finding(msgspec.Struct, frozen=True):
    """One reason why a thread does not go on.

    Attributes:
        kind: of the part that is missing or no longer fits.
        name: the node, state key, end of a join or tool, as it is stored.
        where: the clause about where it is stored: "waits for node 'book'".
        why: the clause about the graph: "which graph 'g' doesn't have".
        cure: the Migration to write, as Python; "" where none helps.
        do: advice: similar names, the cure, and other ways.
        namespace: of the subgraph whose rows have it; "" for the thread's own graph.
    """

    kind: FindingKind
    name: str
    where: str
    why: str
    cure: str
    do: str
    namespace: str = ""


class GraphChange(msgspec.Struct, frozen=True):
    """The result of a resume of a thread under a graph, before it runs.

    Attributes:
        thread_id: the thread.
        checkpoint: id of the checkpoint that was looked at, as text; "" without one.
        stored_graph: id of the graph that stored it.
        graph: id of the graph that would go on with it.
        verdict: whether it goes on as it is, by migrations, or not at all.
        findings: why not; empty unless `refused`.
        migrated: sentences about what the graph's migrations change in this thread.
    """

    thread_id: str
    checkpoint: str
    stored_graph: str
    graph: str
    verdict: ResumeVerdict
    findings: tuple[Finding, ...] = ()
    migrated: tuple[str, ...] = ()

    @property
    def cures(self) -> tuple[str, ...]:
        """The Migrations to write, as Python, each once."""
        return tuple(dict.fromkeys(f.cure for f in self.findings if f.cure))
