"""Joins of a stored thread under a graph whose joins have other starts or another end."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from actorgraph.plan.plan import Plan
from actorgraph.plan.renames import join_name, join_parts


@dataclass(frozen=True, slots=True)
class JoinNow:
    """A stored join, as a graph has it.

    Attributes:
        channel: today's channel; the stored one where nothing fits; None if it is dropped.
        starts: stored name of a start -> today's, of those that still count.
        more: the starts that count as arrived by a migration.
    """

    channel: str | None
    starts: Mapping[str, str] = field(default_factory=dict[str, str])
    more: tuple[str, ...] = ()

    def arrived(self, names: Iterable[str]) -> list[str]:
        """The starts that have arrived, by today's names, sorted."""
        return sorted({*(self.starts[n] for n in names if n in self.starts), *self.more})


def join_now(plan: Plan, channel: str) -> JoinNow | None:
    """Find a stored join in a graph.

    The order of its starts doesn't count, renamed nodes are followed, and a start that is gone is
    not waited for. Another start that a thread has passed would never arrive: only a migration
    can say what then.

    Returns: None for the channel of anything else.
    """
    parts = join_parts(channel)
    if parts is None:
        return None
    renames = plan.renames
    starts = {name: now for name in parts[0] if (now := renames.node(name)) is not None}
    if channel in plan.channels:
        return JoinNow(channel, starts)
    end = renames.node(parts[1])
    if end is None:
        # The starts that have arrived count at the node that runs in place of the removed one.
        led = [join_name(starts.values(), new) for new in renames.goto.get(parts[1], ())]
        into = [name for name in led if name in plan.channels]
        return JoinNow(into[0], starts) if len(into) == 1 else JoinNow(None)
    same = join_name(starts.values(), end)
    if same in plan.channels:
        return JoinNow(same, starts)
    if end in renames.joins and renames.joins[end] is None:
        return JoinNow(None)
    found = [(c, names) for c, names in _joins_to(plan, end) if names.intersection(starts.values())]
    if len(found) == 1:
        name, wanted = found[0]
        more = renames.joins.get(end)
        if more is not None or wanted.issubset(starts.values()):
            kept = {old: now for old, now in starts.items() if now in wanted}
            return JoinNow(name, kept, tuple(n for n in more or () if n in wanted))
    return JoinNow(channel, starts)


def _joins_to(plan: Plan, end: str) -> Iterable[tuple[str, frozenset[str]]]:
    for channel in plan.channels:
        parts = join_parts(channel)
        if parts is not None and parts[1] == end:
            yield channel, parts[0]
