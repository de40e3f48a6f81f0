"""Subgraphs: their namespaces, and how their runs differ from a root run.

A subgraph's run stores its checkpoints under its parent's thread, in a namespace of its own:
`node:task id` per level, joined by `|`; the second and later graphs that one task runs get
`|1`, `|2`. A stateful one (`checkpointer=True`) has its task ids left out, so that the next task
of the node finds its state again. It makes no claim: the root run's covers the whole thread.
"""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from itertools import islice, product
from typing import Any

import msgspec

from actorgraph.errors import ConflictError
from actorgraph.values.checkpoint import Restored
from actorgraph.values.constants import NAMESPACE_END, NAMESPACE_SEPARATOR, ONE_AT_A_TIME
from actorgraph.values.ids import CheckpointId, ticks_of, uuid6
from actorgraph.values.policies import Durability
from actorgraph.values.run import RunOutcome, Succeeded

PARENTS_KEY = "parents"
TASK_KEY = "langgraph_task_id"
TRACE_KEY = "traceparent"
PLACE_KEYS = frozenset({PARENTS_KEY, TASK_KEY, TRACE_KEY})
"""Keys of a checkpoint's metadata that locate its run: below other runs, and in a trace."""


class Nested(msgspec.Struct, frozen=True):
    """The place of a subgraph's run.

    Attributes:
        parents: namespace -> checkpoint id, of every run above it.
        routed: answers to its questions and to those of its subgraphs, by interrupt id.
        stateful: whether its namespace outlives the task that it runs in.
        claims: whether it claims its thread: it has a saver of its own.
        task: the id of the task that it runs in.
        answering: as in the `RunState` of the run above it.
    """

    parents: Mapping[str, str]
    routed: Mapping[str, Any]
    stateful: bool = False
    claims: bool = False
    task: str = ""
    answering: bool = False

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The part of its checkpoints' metadata that locates it."""
        parents = dict(self.parents)
        if self.stateful:
            return {PARENTS_KEY: parents, TASK_KEY: self.task}
        return {PARENTS_KEY: parents}


def nested_namespace(task_namespace: str, count: int, *, stateful: bool) -> str:
    """Make the namespace of a subgraph.

    Args:
        task_namespace: of the task that runs it.
        count: how many graphs the task's attempt has run before this one.
        stateful: leave the task ids out.
    """
    base = stable_namespace(task_namespace) if stateful else task_namespace
    return f"{base}{NAMESPACE_SEPARATOR}{count}" if count else base


def stable_namespace(namespace: str) -> str:
    """Remove the task ids from a namespace; node names and the numbers of calls stay."""
    parts = namespace.split(NAMESPACE_SEPARATOR)
    return NAMESPACE_SEPARATOR.join(part.split(NAMESPACE_END)[0] for part in parts)


def names_of_namespace(namespace: str, names: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """List the namespaces under which a subgraph's rows may be, if nodes on the way were renamed.

    Rows stay where they were stored, so the first of these that has any is the subgraph's.

    Args:
        namespace: of the subgraph.
        names: today's name and the old ones of each node or task on the way, outermost first.
    Returns: the namespace itself, then the others; no more than `NAMESPACES_MAX`.
    """
    levels: list[tuple[str, ...]] = []
    left = iter(names)
    for part in namespace.split(NAMESPACE_SEPARATOR):
        name, mark, task = part.partition(NAMESPACE_END)
        others = () if name.isdigit() else next(left, ())
        levels.append(tuple(dict.fromkeys((part, *(f"{one}{mark}{task}" for one in others)))))
    ways = islice(product(*levels), NAMESPACES_MAX)
    return tuple(NAMESPACE_SEPARATOR.join(way) for way in ways)


NAMESPACES_MAX = 32
"""Namespaces in which the rows of a subgraph are looked for."""


def nodes_of(namespace: str) -> tuple[str, ...]:
    """Read the nodes on the way to a namespace, outermost first."""
    parts = stable_namespace(namespace).split(NAMESPACE_SEPARATOR) if namespace else []
    return tuple(part for part in parts if not part.isdigit())


def continues_stored(nested: Nested, restored: Restored) -> bool:
    """Whether a subgraph's run goes on from the stored checkpoint rather than from its input.

    A checkpoint in a task's own namespace is of an earlier attempt of that task. In a stateful
    namespace that is so only if the same task made it, under the same checkpoints of the runs
    above.

    Raises:
        ConflictError: another task of the same superstep has not finished with the namespace.
    """
    if not nested.stateful:
        return True
    if restored.metadata.get(PARENTS_KEY) != dict(nested.parents):
        return False
    if restored.metadata.get(TASK_KEY) == nested.task:
        return True
    if restored.next:
        raise ConflictError(
            f"stateful subgraph {restored.namespace!r} is in use: another task of the same "
            "superstep has not finished with it",
            do=ONE_AT_A_TIME,
        )
    return False


def saves_at_end(nested: Nested | None, durability: Durability, outcome: RunOutcome) -> bool:
    """Whether a run that has sent nothing yet stores something when it leaves.

    In exit mode the result of a finished subgraph is part of its parent's; only state that is
    needed again is stored.
    """
    if nested is None or durability is not Durability.EXIT:
        return False
    return nested.stateful or not isinstance(outcome, Succeeded)


def fixed_id(namespace: str, base: bytes, step: int) -> CheckpointId:
    """Make a checkpoint id for a subgraph without a saver: the same whenever its task runs again.

    So its questions keep their ids although it stores nothing.
    """
    node = blake2b(namespace.encode("utf-8", "surrogatepass") + base, digest_size=6).digest()
    return uuid6(ticks_of(base), step, int.from_bytes(node, "big"))
