"""Ids of LangGraph's tasks and what they are here: found by making LangGraph's id once more.

An id of LangGraph's is a hash of the checkpoint, the namespace, the step, the node's name and its
triggers. Whoever knows the names can make it again, and so a task is found with certainty or not
at all.
"""

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from itertools import combinations
from typing import Any

import msgspec

from actorgraph.errors import MissingExtraError
from actorgraph.values.constants import BRANCH_TO, PULL, PUSH, START
from actorgraph.values.ids import TaskId, as_bytes, interrupt_id, task_id
from actorgraph.values.run import TaskPath

JOIN = "join:"
_JOINS_MAX = 4


class Found(msgspec.Struct, frozen=True):
    """A task of LangGraph's, as it is here.

    Attributes:
        theirs: its namespace there, `node:task id`, below the graph's own.
        path: of its rows of control; those of its writes also name the node of a Send.
    """

    id: TaskId
    node: str
    path: TaskPath
    theirs: str
    ours: str

    @property
    def written(self) -> TaskPath:
        """The path of the row of what it has written."""
        return (*self.path, self.node) if self.path[0] == PUSH else self.path


class Point(msgspec.Struct, frozen=True):
    """What a checkpoint says of the tasks that come after it.

    Attributes:
        namespace: LangGraph's; ours: what that is here.
        triggers: node -> LangGraph's triggers, each with its name here, that are due.
        sends: the nodes of its Sends.
    """

    id: str
    namespace: str
    ours: str
    step: int
    triggers: Mapping[str, Sequence[tuple[str, str, bool]]]
    sends: Sequence[str]


def hasher() -> Any:
    """The hash that LangGraph's ids are made of.

    Raises:
        MissingExtraError: xxhash isn't installed.
    """
    try:
        module: Any = import_module("xxhash")
    except ImportError as error:
        raise MissingExtraError(
            "finding LangGraph's tasks again needs xxhash, which isn't installed",
            do="pip install 'actorgraph[migrate]'",
        ) from error
    return module.xxh3_128_hexdigest


def renamed(channel: str) -> str:
    """A channel's name here: a join has other separators."""
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
    """Node -> its triggers: LangGraph's name, ours, and whether it makes the node due.

    Args:
        versions, seen: numbers, by LangGraph's names.
        held: the channels that have a value.
        starts: nodes that an input makes due, as an entrypoint is; no checkpoint names them.
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
        found[name] = [(c, renamed(c), due[c]) for c in own]
    return found


def due_of(
    triggers: Mapping[str, Sequence[tuple[str, str, bool]]],
    sends: Sequence[str],
    *,
    begins: bool,
) -> tuple[str, ...]:
    """The nodes that run after a checkpoint: those of its Sends, then the others by name.

    Args:
        triggers: see `triggers_of`.
        begins: whether it has an input that nothing has taken up.
    """
    started = {name for name, own in triggers.items() if (START, START, True) in own}
    due = {name for name, own in triggers.items() for *_, is_due in own if is_due} - started
    if begins:
        due |= (started - {START}) or {START}
    return tuple(dict.fromkeys([*sends, *sorted(due)]))


class Tasks:
    """Makes LangGraph's ids of the tasks of one checkpoint, and ours beside them."""

    def __init__(self, point: Point) -> None:
        self._hash = hasher()
        self._point = point
        self._base = as_bytes(point.id)
        self._known: dict[str, Found] | None = None

    def get(self, identifier: str) -> Found | None:
        """The task with an id of LangGraph's; None if none of the checkpoint has it."""
        if self._known is None:
            self._known = dict(self._all())
        return self._known.get(identifier)

    def _all(self) -> Iterable[tuple[str, Found]]:
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

    def _found(self, theirs: str, ours: TaskId, node: str, path: TaskPath) -> Found:
        point = self._point
        return Found(
            ours, node, path, _below(point.namespace, node, theirs), _below(point.ours, node, ours)
        )

    def _theirs(self, node: str, *place: str) -> str:
        namespace = f"{self._point.namespace}|{node}" if self._point.namespace else node
        parts = (namespace, str(self._point.step + 1), node, *place)
        made = self._hash(self._base + "".join(parts).encode())
        return f"{made[:8]}-{made[8:12]}-{made[12:16]}-{made[16:20]}-{made[20:]}"

    def question(self, found: Found, theirs: str, answers: int) -> tuple[str, int] | None:
        """Our id of a task's own question, and how many it had asked before.

        Args:
            theirs: LangGraph's id. answers: how many answers the task has.
        """
        for place in range(answers + 2):
            text = f"{found.theirs}|{place}" if place else found.theirs
            if theirs == self._hash(text.encode()):
                return interrupt_id(found.ours, place), place
        if theirs == self._hash(found.theirs.encode()):
            return interrupt_id(found.ours, answers), answers
        return None


def _below(namespace: str, node: str, identifier: str) -> str:
    return f"{namespace}|{node}:{identifier}" if namespace else f"{node}:{identifier}"


def _choices(names: Sequence[str]) -> Iterable[tuple[str, ...]]:
    """The triggers that a node may have: a join that nothing has reached yet may be among them."""
    first, *joins = names
    for count in range(min(len(joins), _JOINS_MAX) + 1):
        for some in combinations(joins, count):
            yield tuple(sorted((first, *some)))
