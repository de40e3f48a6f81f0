"""DeltaChannels: which checkpoints hold the whole value, and how to rebuild it for the others.

A checkpoint that a superstep leads to is its parent with the parent's ledger folded in, so such a
channel needs no place in it. It is stored whole

- when `snapshot_frequency` supersteps have written it, or it was not stored for `supersteps_max`;
- when the ledger lacks its writes: after `update_state`, after a Command's update on a checkpoint
  that has other children, in exit mode, where supersteps leave no ledger;
- when the ledger has too many: rows of tasks that no longer exist;
- after an Overwrite: nothing before it is needed any more.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from actorgraph.channels import Channel, DeltaChannel
from actorgraph.channels.reducer import has_overwrite
from actorgraph.superstep.pending_writes import Attempt
from actorgraph.superstep.run_state import NO_CHANNELS, RunState
from actorgraph.values.checkpoint import StoredWrite
from actorgraph.values.constants import NULL_TASK
from actorgraph.values.policies import Durability
from actorgraph.values.run import NO_DELTAS

COUNTERS = "counters_since_delta_snapshot"
"""The key of a checkpoint's metadata that has `NewCheckpoint.deltas`."""


class DeltaChoice(msgspec.Struct, frozen=True):
    """The DeltaChannels of a new checkpoint; the fields are those of `NewCheckpoint`."""

    counters: Mapping[str, tuple[int, int]] = NO_DELTAS
    folds: bool = False
    unwritten: frozenset[str] = frozenset()


NO_DELTA_CHOICE = DeltaChoice()


def note_overwritten(state: RunState, pending: Mapping[str, Sequence[Any]]) -> None:
    """Have the next checkpoint store whole the channels that an Overwrite has replaced."""
    for channel in state.plan.deltas.intersection(pending):
        if any(map(has_overwrite, pending[channel])):
            state.whole |= {channel}


def note_left_over(state: RunState, known: Mapping[str, Attempt]) -> None:
    """Do the same for channels written by finished tasks that the superstep no longer has."""
    for task, attempt in known.items():
        if attempt.writes is not None and task not in state.tasks:
            state.whole |= {c for c, _ in attempt.writes if c in state.plan.deltas}


def choose_deltas(state: RunState, changed: dict[str, Any]) -> DeltaChoice:
    """Choose the DeltaChannels that a new checkpoint stores whole.

    Args:
        changed: channel -> value that it will store; DeltaChannels are removed and added.
    """
    folds = state.source == "loop" and state.policy.durability is not Durability.EXIT
    counters: dict[str, tuple[int, int]] = {}
    unwritten: set[str] = set()
    for channel in state.plan.deltas.intersection(changed).union(state.deltas):
        rule = state.plan.channels.get(channel)
        written = channel in changed
        updates, points = state.deltas.get(channel, (0, 0))
        count = (updates + written, points + 1)
        whole = channel in state.whole or (written and not folds)
        if rule is not None and (whole or _is_due(rule, *count)):
            if not written:
                changed[channel] = rule.dump(state.values[channel])
                unwritten.add(channel)
        else:
            changed.pop(channel, None)
            counters[channel] = count
    state.deltas = counters
    state.whole = NO_CHANNELS
    return DeltaChoice(counters, folds, frozenset(unwritten))


def _is_due(rule: Channel[Any], updates: int, points: int) -> bool:
    """Whether it is time to store the value; at once if the channel is no longer a DeltaChannel."""
    if not isinstance(rule, DeltaChannel):
        return True
    return updates >= rule.snapshot_frequency or points >= rule.supersteps_max


def counters_of(deltas: Mapping[str, tuple[int, int]]) -> dict[str, Any]:
    """Make the part of a checkpoint's metadata with the counters of its deltas."""
    return {COUNTERS: dict(deltas)} if deltas else {}


def in_order(ledger: Iterable[StoredWrite]) -> list[StoredWrite]:
    """Sort a superstep's rows of writes as they were folded: those of Commands first.

    Args:
        ledger: in task-path order.
    """
    rows = [row for row in ledger if row.index >= 0]
    commands = sorted((r for r in rows if r.task == NULL_TASK), key=lambda row: row.index)
    return [*commands, *(row for row in rows if row.task != NULL_TASK)]


def batches(ledger: Iterable[StoredWrite], channel: str) -> list[list[Any]]:
    """Collect one superstep's writes to a channel: each Command's, then those of all tasks."""
    grouped: list[list[Any]] = []
    tasks: list[Any] = []
    for row in in_order(ledger):
        writes = [value for name, value in row.writes if name == channel]
        if row.task != NULL_TASK:
            tasks.extend(writes)
        elif writes:
            grouped.append(writes)
    return [*grouped, tasks] if tasks else grouped


def refolded(rule: Channel[Any], name: str, value: Any, supersteps: Iterable[Sequence[Any]]) -> Any:
    """Fold the writes of some supersteps, oldest first, into a value."""
    for writes in supersteps:
        value = rule.fold(name, value, writes)
    return value
