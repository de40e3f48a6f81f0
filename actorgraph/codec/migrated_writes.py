"""Pending writes under a graph that has changed: their channels, paths, Sends and values by name.

Rows keep the ids of their tasks. Those of a dropped node are left out. Of a node in whose place
others run what its task has finished counts, and what only waits is left out.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from actorgraph.codec.conversions import Conversions
from actorgraph.plan.joins import JoinNow, join_now
from actorgraph.plan.plan import Plan
from actorgraph.superstep.stored_calls import call_chain
from actorgraph.values.checkpoint import LeftTask, StoredWrite
from actorgraph.values.commands import Send
from actorgraph.values.constants import (
    BRANCH_TO,
    CALL,
    ERROR_SOURCE_NODE,
    HANDLER_PREFIX,
    NO_WRITES,
    PULL,
    PUSH,
    RETURN,
    START,
    TASKS,
)
from actorgraph.values.run import TaskPath, Write

SentNode = tuple[int, str]
"""Index and node of a Send as it was stored."""


class CurrentNames:
    """Today's names of what a checkpoint and its pending writes name.

    Attributes:
        sends: `id()` of each Send made -> the stored one's index and node.
        kept: the Sends made, so that no id is used again.
        changed: sentences about what has changed.
        whole: the DeltaChannels some of whose waiting writes have changed.
    """

    def __init__(self, plan: Plan, conversions: Conversions) -> None:
        self.plan = plan
        self.conversions = conversions
        self.sends: dict[int, SentNode] = {}
        self.kept: list[Send] = []
        self.changed: dict[str, None] = {}
        self.whole: set[str] = set()
        self._joins: dict[str, JoinNow | None] = {}

    def join(self, channel: str) -> JoinNow | None:
        """Return today's form of a join, by its channel; None for another channel."""
        if channel not in self._joins:
            self._joins[channel] = join_now(self.plan, channel)
        return self._joins[channel]

    def channel(self, name: str) -> str | None:
        """Today's name of a channel; None if it was dropped."""
        join = self.join(name)
        return self.plan.renames.channel(name) if join is None else join.channel

    def note_renamed(self, old: str, new: str | None) -> None:
        """Remember that a channel has another name now."""
        if new != old:
            self.note(f"{old!r} is {new!r} now" if new else f"{old!r} is dropped")

    def note_task(self, old: str) -> None:
        """Remember that a `@task` with a stored call has another name now, or is dropped."""
        new = self.plan.renames.task(old)
        if new != old:
            end = f"is {new!r} now" if new else "is dropped with its stored calls"
            self.note(f"task {old!r} {end}")

    def note(self, sentence: str) -> None:
        """Remember what has changed."""
        self.changed[sentence] = None

    def path(self, path: TaskPath) -> TaskPath:
        """A path by today's names."""
        if path[-1:] == (CALL,) or len(path) < 2:
            return path
        return tuple([self._part(part) for part in path[:1]] + [self._part(p) for p in path[1:]])

    def _part(self, part: str | int) -> str | int:
        if not isinstance(part, str):
            return part
        if part.startswith(HANDLER_PREFIX):
            node = part.removeprefix(HANDLER_PREFIX)
            return HANDLER_PREFIX + (self.plan.renames.node(node) or node)
        return self.plan.renames.node(part) or part

    def writes(
        self, writes: Iterable[Write], converted: Any, *, controls: bool = False
    ) -> tuple[Write, ...]:
        """The writes of a row by today's names, their values converted."""
        made: list[Write] = []
        place = 0
        for channel, value in writes:
            if controls or channel in (RETURN, NO_WRITES):
                source = channel == ERROR_SOURCE_NODE and isinstance(value, str)
                made.append((channel, self._part(value) if source else value))
            elif channel == TASKS:
                sent = value if isinstance(value, list) else [value]
                made += [(TASKS, send) for send in self.sent(sent, converted, first=place)]
                place += len(sent)
            elif channel.removeprefix(BRANCH_TO) in self.plan.renames.goto and channel.startswith(
                BRANCH_TO
            ):
                ends = self.plan.renames.goto[channel.removeprefix(BRANCH_TO)]
                made += [(BRANCH_TO + end, value) for end in ends]
                self.note(f"{channel!r} leads to {', '.join(map(repr, ends))} now")
            elif (join := self.join(channel)) is not None:
                made += self._arrivals(channel, join, value)
            elif channel == START:
                made.append((START, self.conversions.fields(value, converted)))
            else:
                now = self.channel(channel)
                self.note_renamed(channel, now)
                if now is not None:
                    new = self.conversions.write(now, value, converted)
                    made.append((now, new))
                    if now in self.plan.deltas and (now != channel or new is not value):
                        self.whole.add(now)  # readers of its rows would not find this write
        return tuple(made) or ((NO_WRITES, None),)

    def _arrivals(self, channel: str, join: JoinNow, value: Any) -> list[Write]:
        now = self.channel(channel)
        self.note_renamed(channel, now)
        if now is None:
            return []
        return [(now, name) for name in join.arrived({value})]

    def sent(
        self, sends: Iterable[Send], converted: Any, *, first: int = 0, ended: Iterable[int] = ()
    ) -> list[Send]:
        """Sends to today's nodes, their arguments converted.

        Args:
            first: index of the first.
            ended: indexes of those whose tasks have finished: no other node runs for them.
        """
        renames, made = self.plan.renames, list[Send]()
        over = set(ended)
        for index, send in enumerate(sends, first):
            new = renames.node(send.node)
            ends = (new,) if new else () if index in over else renames.goto.get(send.node, ())
            arg = self.conversions.fields(send.arg, converted)
            if ends != (send.node,):
                to = ", ".join(map(repr, ends))
                self.note(f"a Send to {send.node!r} " + (f"goes to {to}" if ends else "is dropped"))
            for end in ends:
                same = end == send.node and arg is send.arg
                one = send if same else Send(end, arg, timeout=send.timeout)
                self.kept.append(one)
                if new is not None:
                    self.sends[id(one)] = (index, send.node)
                made.append(one)
        return made


def migrated_rows(
    names: CurrentNames, rows: Iterable[StoredWrite], converted: Any, sent_nodes: list[str]
) -> tuple[tuple[StoredWrite, ...], tuple[LeftTask, ...]]:
    """Bring the rows of a ledger up to date.

    Args:
        converted: the conversions of the checkpoint; a row may have its own.
        sent_nodes: the nodes of the checkpoint's waiting Sends as stored.
    Returns: the rows; the finished tasks of dropped nodes.
    """
    kept: list[StoredWrite] = []
    left: list[LeftTask] = []
    for row in rows:
        had = converted if row.converted is None else row.converted
        node = node_of(row.path, sent_nodes)
        gone = node in names.plan.renames.nodes and names.plan.renames.nodes[node] is None
        writes = names.writes(row.writes, had, controls=row.index < 0)
        for call in call_chain(row.path)[-1:]:
            names.note_task(call.name)
        if not gone:
            path = names.path(row.path)
            kept.append(msgspec.structs.replace(row, path=path, writes=writes))
        elif row.index >= 0 and node in names.plan.renames.goto:
            own = tuple(write for write in writes if write[0] != NO_WRITES)
            left.append((row.task, row.path, own))
            names.note(f"the finished task of {node!r} keeps its writes")
        else:
            names.whole.update(channel for channel, _ in writes)  # its row stays in the store
            names.note(f"the task of {node!r} is dropped with its pending writes")
    return tuple(kept), tuple(left)


def node_of(path: TaskPath, sent_nodes: list[str]) -> str:
    """The node of a row's task; "" for a call, a step, or a row without a task."""
    if len(path) < 2 or path[-1] == CALL:
        return ""
    if path[0] == PULL:
        return str(path[1])
    if path[0] != PUSH or not isinstance(path[1], int):
        return ""
    if len(path) > 2 and isinstance(path[-1], str):
        return path[-1].removeprefix(HANDLER_PREFIX)
    return sent_nodes[path[1]] if path[1] < len(sent_nodes) else ""
