"""The values of delta channels: the last whole value and the writes since, folded once more."""

from collections.abc import Sequence
from typing import Any

from actorgraph.channels import EMPTY, Channel
from actorgraph.codec.codec import Codec
from actorgraph.codec.held import held_values, missing_rows_error
from actorgraph.codec.placement import Placement
from actorgraph.codec.records import decode_record
from actorgraph.errors import SerializationError
from actorgraph.plan.graph import Plan
from actorgraph.superstep.deltas import batches, refolded
from actorgraph.values.commits import StoredCheckpoint
from actorgraph.values.records import StoredWrite


def delta_values(
    codec: Codec,
    plan: Plan,
    stored: StoredCheckpoint,
    placement: Placement,
    ledgers: Sequence[Sequence[StoredWrite]],
) -> dict[str, Any]:
    """Fold the values of a checkpoint's delta channels; unknown channels are left out.

    Args:
        placement: updated with where the lists are stored that these values extend.
        ledgers: the pending writes of each of `stored.ancestors`.
    Raises:
        SerializationError: an ancestor is missing, or the channel can't fold what was written.
    """
    record = decode_record(stored.row.record)
    rules = {c: _rule(plan, c) for c in record.deltas if c in plan.channels}
    supersteps: dict[str, list[list[Any]]] = {c: [] for c in rules}
    values: dict[str, Any] = {}
    for ancestor, ledger in zip(stored.ancestors, ledgers, strict=True):
        open_ = [c for c in rules if c not in values]
        if record.folds:
            for channel in open_:
                supersteps[channel].extend(reversed(batches(ledger, channel)))
        record = decode_record(ancestor.row.record)
        ends = set(open_).difference(record.deltas)
        held = held_values(codec, plan, ancestor, record.only(ends), placement) if ends else {}
        for channel in ends:
            values[channel] = held.get(channel, rules[channel].initial())
            # This checkpoint doesn't hold the value. `growths` still knows the ancestor's list, so
            # that the next stored list appends to its rows.
            placement.forget(channel)
    for channel, rule in rules.items():
        if channel not in values:
            raise missing_rows_error(channel, stored)
        values[channel] = refolded(rule, channel, values[channel], reversed(supersteps[channel]))
    return {channel: value for channel, value in values.items() if value is not EMPTY}


def _rule(plan: Plan, channel: str) -> Channel[Any]:
    rule = plan.channels[channel]
    if not rule.refolds:
        raise SerializationError(
            f"channel {channel!r} was stored by a DeltaChannel, whose writes {rule!r} can't fold",
            do="give the key a DeltaChannel or a reducer until its threads have ended",
        )
    return rule
