"""Runs inside of a node of another run: where they stand, and how they differ from a root run.

A nested run stores its checkpoints under its parent's thread, in a namespace of its own:
`node:task id` per level, joined by `|`; the second and later graphs that one task runs get
`|1`, `|2`. A stateful one (`checkpointer=True`) has its task ids left out, so that the next task
of the node finds its state again. It has no claim: the root run's covers the whole thread.
"""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import msgspec

from actorgraph.errors import ConflictError
from actorgraph.values.constants import NAMESPACE_END, NAMESPACE_SEPARATOR, ONE_AT_A_TIME
from actorgraph.values.ids import CheckpointId, ticks_of, uuid6
from actorgraph.values.policies import Durability
from actorgraph.values.records import Restored
from actorgraph.values.run import Outcome, Succeeded

PARENTS_KEY = "parents"
TASK_KEY = "langgraph_task_id"
TRACE_KEY = "traceparent"
PLACE_KEYS = frozenset({PARENTS_KEY, TASK_KEY, TRACE_KEY})
"""What the metadata of checkpoints say of the place of their run: of a nested run above all, and
of a traced one where its span is."""


class Nested(msgspec.Struct, frozen=True):
    """What a nested run knows of its place.

    Attributes:
        parents: namespace -> checkpoint id, of every run above it.
        routed: answers to its questions and to those below it, by interrupt id.
        stateful: whether its namespace outlives the task that it runs in.
        claims: whether it has a saver of its own, on which the root run has no claim.
        task: the id of the task that it runs in.
    """

    parents: Mapping[str, str]
    routed: Mapping[str, Any]
    stateful: bool = False
    claims: bool = False
    task: str = ""

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What its checkpoints say of its place."""
        parents = dict(self.parents)
        if self.stateful:
            return {PARENTS_KEY: parents, TASK_KEY: self.task}
        return {PARENTS_KEY: parents}


def nested_namespace(task_namespace: str, count: int, *, stateful: bool) -> str:
    """The namespace of the graph that a task runs as number `count` (from 0) of its attempt."""
    base = stable(task_namespace) if stateful else task_namespace
    return f"{base}{NAMESPACE_SEPARATOR}{count}" if count else base


def stable(namespace: str) -> str:
    """A namespace without task ids: node names and the numbers of calls."""
    parts = namespace.split(NAMESPACE_SEPARATOR)
    return NAMESPACE_SEPARATOR.join(part.split(NAMESPACE_END)[0] for part in parts)


def nodes_of(namespace: str) -> tuple[str, ...]:
    """The nodes that lead to a namespace, outermost first."""
    parts = stable(namespace).split(NAMESPACE_SEPARATOR) if namespace else []
    return tuple(part for part in parts if not part.isdigit())


def goes_on(nested: Nested, restored: Restored) -> bool:
    """Whether a nested run takes up what is stored rather than its input.

    What stands in a task's own namespace is an earlier attempt of that task. In a stateful
    namespace it is one only if it was made by that task, under the same checkpoints of the runs
    above.

    Raises:
        ConflictError: another task of the same superstep is not through with it.
    """
    if not nested.stateful:
        return True
    if restored.metadata.get(PARENTS_KEY) != dict(nested.parents):
        return False
    if restored.metadata.get(TASK_KEY) == nested.task:
        return True
    if restored.next:
        raise ConflictError(
            f"a graph with a state of its own is in use: {restored.namespace!r} waits to go on "
            "in another task of the same superstep",
            do=ONE_AT_A_TIME,
        )
    return False


def saves_at_end(nested: Nested | None, durability: Durability, outcome: Outcome) -> bool:
    """Whether a run that has sent nothing yet stores something when it leaves.

    In exit mode a nested run that has finished is inside of its parent's result; only state
    that is needed again is stored.
    """
    if nested is None or durability is not Durability.EXIT:
        return False
    return nested.stateful or not isinstance(outcome, Succeeded)


def fixed_id(namespace: str, base: bytes, step: int) -> CheckpointId:
    """The checkpoint id of a nested run without a saver: the same whenever its task runs again.

    So its questions keep their ids, although nothing of it is stored.
    """
    node = blake2b(namespace.encode("utf-8", "surrogatepass") + base, digest_size=6).digest()
    return uuid6(ticks_of(base), step, int.from_bytes(node, "big"))
