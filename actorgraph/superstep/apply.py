"""The update phase of a superstep: all tasks' writes become the next channel state.

Source: the update phase of BSP; Malewicz et al., "Pregel", SIGMOD 2010. The version rules:
one new version per superstep, given to every channel that changed in it; a node has seen the
versions that its triggers had when it was made due, not the ones they got since.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from actorgraph.channels import EMPTY, UNCHANGED
from actorgraph.errors.texts import add_note
from actorgraph.plan.plan import Plan
from actorgraph.superstep.deltas import note_overwritten
from actorgraph.superstep.run_state import RunState
from actorgraph.values.constants import INPUT, TASKS
from actorgraph.values.run import Write

_FEW = 16
"""Up to so many clearing channels are tried one by one; more are filtered by the set ones."""


class TaskWrites(msgspec.Struct, frozen=True, gc=False):
    """The part of a finished task that `apply` needs: its node, triggers and writes."""

    name: str
    triggers: Sequence[str]
    writes: Sequence[Write]


def apply_command(state: RunState, writes: Sequence[Write]) -> set[str]:
    """Fold the writes of a Command that a caller gave as input.

    Sends among them replace those that wait. Their tasks are new ones: they must not find the
    results and answers of the tasks whose places they take.
    """
    if any(channel == TASKS for channel, _ in writes):
        state.send_round += 1
    return apply(state, [TaskWrites(INPUT, (), writes)])


def apply(state: RunState, ran: Sequence[TaskWrites]) -> set[str]:
    """Fold the writes of one superstep into the cells.

    Args:
        state: its values, versions, seen and dirty change, all of them or, when a channel
            refuses, none; nothing else does.
        ran: the tasks, sorted by the caller with `in_path_order`. A superstep without any
            trigger (an input, an update from outside) ages no ephemeral cell.
    Returns: the channels that changed and are available: those that may trigger nodes.
    Raises:
        InvalidUpdateError: a channel can't take these writes.
    """
    plan, values, channels = state.plan, state.values, state.plan.channels
    new: dict[str, Any] = {}
    if plan.consumable:
        _consume(state, ran, new)
    pending = _group(ran, plan)
    if plan.whole_keys:
        values = {**values, **_taken_defaults(state, ran)}
    if plan.deltas:
        note_overwritten(state, pending)
    for channel, writes in pending.items():
        before = new[channel] if channel in new else values.get(channel, EMPTY)
        try:
            folded = channels[channel].fold(channel, before, writes)
        except Exception as error:
            writers = sorted({t.name for t in ran if any(c == channel for c, _ in t.writes)})
            add_note(error, f"while folding the writes of {', '.join(writers)} into {channel!r}")
            if isinstance(before, list) and not all(isinstance(w, list) for w in writes):
                add_note(error, f"return a list of items to append: {{{channel!r}: [...]}}")
            raise
        if folded is not UNCHANGED:
            new[channel] = folded
    for task in ran:
        if task.triggers:
            _age(plan, values, pending, new)
            break
    _see(state, ran)
    return _commit(state, new) if new else set()


def _taken_defaults(state: RunState, ran: Iterable[TaskWrites]) -> dict[str, Any]:
    """Make the cells of keys at their declared default that a subgraph gives back.

    Its value has been made of the default that it was given, which folding would add again.
    """
    plan, values = state.plan, state.values
    taken: dict[str, Any] = {}
    for task in ran:
        keys = plan.whole_keys.get(task.name)
        if keys is None or plan.callable[task.name].triggers[0] not in task.triggers:
            continue  # the argument of a Send, or an update from outside, isn't the state
        for key, _ in task.writes:
            if key in keys and plan.defaults[key].is_same(values.get(key)):
                taken[key] = plan.channels[key].initial()
    if taken:
        state.whole |= plan.deltas.intersection(taken)  # not a delta to the default
    return taken


def _age(
    plan: Plan, values: Mapping[str, Any], pending: Mapping[str, Any], new: dict[str, Any]
) -> None:
    """Change the cells that a superstep without a write to them changes."""
    rules, channels = plan.clearing, plan.channels
    # Each node has such a channel and few of them are set: the cost of a superstep must not
    # grow with the number of nodes.
    for channel in rules if len(rules) <= _FEW else _clearing(rules, values):
        if channel in values and channel not in pending:
            value = channels[channel].idle(values[channel])
            if value is not UNCHANGED:
                new[channel] = value
    if plan.finishing and not _leads_on(plan, new):
        for channel in plan.finishing:
            value = new[channel] if channel in new else values.get(channel, EMPTY)
            _stage(new, channel, channels[channel].finish(value))


def _clearing(rules: Mapping[str, int], values: Mapping[str, Any]) -> Sequence[str]:
    """The set cells that an idle superstep changes, in the order of the plan."""
    return sorted([channel for channel in values if channel in rules], key=rules.__getitem__)


def _consume(state: RunState, ran: Iterable[TaskWrites], new: dict[str, Any]) -> None:
    for channel in {c for task in ran for c in task.triggers if c in state.plan.consumable}:
        value = state.values.get(channel, EMPTY)
        _stage(new, channel, state.plan.channels[channel].consume(value))


def _stage(new: dict[str, Any], channel: str, value: Any) -> None:
    if value is not UNCHANGED:
        new[channel] = value


def _leads_on(plan: Plan, new: dict[str, Any]) -> bool:
    """Whether a change makes a node due, or a Send starts one."""
    return any(c in plan.subscribers or c == TASKS for c in _available(plan, new))


def _available(plan: Plan, new: dict[str, Any]) -> set[str]:
    opaque, channels = plan.opaque, plan.channels
    return {
        channel
        for channel, value in new.items()
        if value is not EMPTY
        and (channel not in opaque or channels[channel].read(value) is not EMPTY)
    }


def _see(state: RunState, ran: Iterable[TaskWrites]) -> None:
    versions = state.versions
    for task in ran:
        # A new dict: checkpoints on their way to the store share the old one.
        seen = dict(state.seen.get(task.name, ()))
        for channel in task.triggers:
            if channel in versions:
                seen[channel] = versions[channel]
        state.seen[task.name] = seen


def _commit(state: RunState, new: dict[str, Any]) -> set[str]:
    """Store the new cells, all with one new version; returns the available ones.

    Versions are integers or floats, which count up by one.
    """
    version = state.max_version = state.max_version + 1
    values, versions, opaque = state.values, state.versions, state.plan.opaque
    available: set[str] = set()
    for channel, value in new.items():
        versions[channel] = version
        if value is EMPTY:
            values.pop(channel, None)
            continue
        values[channel] = value
        if channel not in opaque or state.plan.channels[channel].read(value) is not EMPTY:
            available.add(channel)
    if state.has_saver:
        state.dirty.update(new)
    return available


def _group(ran: Iterable[TaskWrites], plan: Plan) -> dict[str, list[Any]]:
    pending: dict[str, list[Any]] = {}
    channels = plan.channels
    for task in ran:
        for channel, value in task.writes:
            if channel in pending:
                pending[channel].append(value)
            elif channel in channels:
                pending[channel] = [value]
    return pending
