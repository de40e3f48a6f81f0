"""Match LangGraph's task ids with tasks here, by computing LangGraph's ids again.

LangGraph's task id is a hash of the checkpoint, the namespace, the step, the node's name and its
triggers. All of them are stored, so a task is either matched with certainty or not at all.
"""

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from itertools import combinations
from typing import Any

import msgspec

from actorgraph.errors import MissingExtraError
from actorgraph.graph import START
from actorgraph.internals import (
    BRANCH_TO,
    PULL,
    PUSH,
    TaskId,
    TaskPath,
    as_bytes,
    interrupt_id,
    task_id,
)

JOIN = "join:"
_JOINS_MAX = 4


class TaskMatch(msgspec.Struct, frozen=True):
    """A task of LangGraph, and its equivalent here.

    Attributes:
        id: the task's id here.
        node: name of its node.
        path: the task's path here; that of its writes also names the node of a Send.
        theirs: LangGraph's namespace of a subgraph in the task, `node:task id`.
        ours: the same namespace here.
    """

    id: TaskId
    node: str
    path: TaskPath
    theirs: str
    ours: str

    @property
    def written(self) -> TaskPath:
        """The path of the row with its writes."""
        return (*self.path, self.node) if self.path[0] == PUSH else self.path


class TaskPoint(msgspec.Struct, frozen=True):
    """The parts of a checkpoint that the ids of its next tasks depend on.

    Attributes:
        id: of the checkpoint.
        namespace: LangGraph's namespace.
        ours: the namespace here.
        step: of the checkpoint.
        triggers: node -> its triggers: LangGraph's name, the name here, and whether it is due.
        sends: the nodes of its Sends.
    """

    id: str
    namespace: str
    ours: str
    step: int
    triggers: Mapping[str, Sequence[tuple[str, str, bool]]]
    sends: Sequence[str]


def task_id_hash() -> Any:
    """Return the hash function of LangGraph's ids.

    Raises:
        MissingExtraError: xxhash isn't installed.
    """
    try:
        module: Any = import_module("xxhash")
    except ImportError as error:
        raise MissingExtraError(
            "matching LangGraph's tasks needs xxhash, which isn't installed",
            do="pip install 'actorgraph[migrate]'",
        ) from error
    return module.xxh3_128_hexdigest


def rename_channel(channel: str) -> str:
    """Return a channel's name here: joins have other separators."""
    if not channel.startswith(JOIN):
        return channel
    starts, _, end = channel.removeprefix(JOIN).rpartition(":")
    return f"{JOIN}{starts.replace('+', '|')}:{end}"


def triggers_of(
    versions: Mapping[str, int],
    seen: Mapping[str, Mapping[str, int]],
    held: Iterable[str],
    starts: Iterable[str] = (),
) -> dict[str, list[tuple[str, str, bool]]]:
    """Find the triggers of each node.

    Args:
        versions: LangGraph's channel name -> version number.
        seen: node -> LangGraph's channel name -> version number.
        held: the channels that have a value.
        starts: nodes that run first after an input, such as an entrypoint; no checkpoint names
            them.
    Returns: node -> its triggers: LangGraph's name, the name here, and whether it is due.
    """
    available = set(held)
    names = {c.removeprefix(BRANCH_TO) for c in versions if c.startswith(BRANCH_TO)}
    names.update(n for n in seen if not n.startswith("__"))
    joins = [c for c in versions if c.startswith(JOIN)]
    names.update(c.rpartition(":")[2] for c in joins)
    found = {name: [(START, START, True)] for name in (START, *starts)}
    for name in names.difference(found):
        own = [BRANCH_TO + name, *sorted(c for c in joins if c.rpartition(":")[2] == name)]
        due = {c: c in available and versions.get(c, 0) > seen.get(name, {}).get(c, 0) for c in own}
        found[name] = [(c, rename_channel(c), due[c]) for c in own]
    return found


def due_nodes(
    triggers: Mapping[str, Sequence[tuple[str, str, bool]]],
    sends: Sequence[str],
    *,
    begins: bool,
) -> tuple[str, ...]:
    """Return the nodes that run after a checkpoint: those of its Sends, then the others by name.

    Args:
        triggers: see `triggers_of`.
        begins: whether it has an input that no node has read yet.
    """
    started = {name for name, own in triggers.items() if (START, START, True) in own}
    due = {name for name, own in triggers.items() for *_, is_due in own if is_due} - started
    if begins:
        due |= (started - {START}) or {START}
    return tuple(dict.fromkeys([*sends, *sorted(due)]))


class TaskFinder:
    """Matches LangGraph's task ids of one checkpoint with tasks here.

    Computes the ids of all tasks that the checkpoint may have, on first use.
    """

    def __init__(self, point: TaskPoint) -> None:
        self._hash = task_id_hash()
        self._point = point
        self._base = as_bytes(point.id)
        self._known: dict[str, TaskMatch] | None = None

    def get(self, identifier: str) -> TaskMatch | None:
        """Return the task with LangGraph's id; None if the checkpoint has no such task."""
        if self._known is None:
            self._known = dict(self._all())
        return self._known.get(identifier)

    def _all(self) -> Iterable[tuple[str, TaskMatch]]:
        for index, node in enumerate(self._point.sends):
            theirs = self._theirs(node, PUSH, str(index))
            ours = task_id(self._base, self._point.ours, node, PUSH, str(index))
            yield theirs, self._found(theirs, ours, node, (PUSH, index))
        for node, triggers in self._point.triggers.items():
            due = [ours for _, ours, is_due in triggers if is_due]
            for names in _choices([theirs for theirs, _, _ in triggers]):
                theirs = self._theirs(node, PULL, *names)
                ours = task_id(self._base, self._point.ours, node, PULL, *due)
                yield theirs, self._found(theirs, ours, node, (PULL, node))

    def _found(self, theirs: str, ours: TaskId, node: str, path: TaskPath) -> TaskMatch:
        point = self._point
        return TaskMatch(
            ours,
            node,
            path,
            _child_namespace(point.namespace, node, theirs),
            _child_namespace(point.ours, node, ours),
        )

    def _theirs(self, node: str, *place: str) -> str:
        namespace = f"{self._point.namespace}|{node}" if self._point.namespace else node
        parts = (namespace, str(self._point.step + 1), node, *place)
        made = self._hash(self._base + "".join(parts).encode())
        return f"{made[:8]}-{made[8:12]}-{made[12:16]}-{made[16:20]}-{made[20:]}"

    def interrupt_id_of(
        self, found: TaskMatch, theirs: str, answers: int
    ) -> tuple[str, int] | None:
        """Return the id here of a task's interrupt, and its index among the task's interrupts.

        Args:
            theirs: LangGraph's id of the interrupt.
            answers: number of resume values that the task has.
        Returns: None if the id can't be matched.
        """
        for place in range(answers + 2):
            text = f"{found.theirs}|{place}" if place else found.theirs
            if theirs == self._hash(text.encode()):
                return interrupt_id(found.ours, place), place
        if theirs == self._hash(found.theirs.encode()):
            return interrupt_id(found.ours, answers), answers
        return None


def _child_namespace(namespace: str, node: str, identifier: str) -> str:
    return f"{namespace}|{node}:{identifier}" if namespace else f"{node}:{identifier}"


def _choices(names: Sequence[str]) -> Iterable[tuple[str, ...]]:
    """Iterate over the sets of triggers that a node may have had: joins may be missing in it."""
    first, *joins = names
    for count in range(min(len(joins), _JOINS_MAX) + 1):
        for some in combinations(joins, count):
            yield tuple(sorted((first, *some)))
