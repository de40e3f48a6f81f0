"""Joins of a stored thread under a graph whose joins have other starts or another end."""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from actorgraph.plan.plan import Plan
from actorgraph.plan.renames import join_name, join_parts


@dataclass(frozen=True, slots=True)
class JoinNow:
    """A stored join, as a graph has it.

    Attributes:
        channel: today's channel; the stored one where nothing fits; None if it is dropped.
        starts: stored name of a start -> today's, of those that still count; several of a removed
            node in whose place several run.
        more: the starts that count as arrived by a migration.
    """

    channel: str | None
    starts: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    more: tuple[str, ...] = ()

    def arrived(self, names: Iterable[str]) -> list[str]:
        """The starts that have arrived, by today's names, sorted."""
        return sorted({*(now for n in names for now in self.starts.get(n, ())), *self.more})


def join_now(plan: Plan, channel: str) -> JoinNow | None:
    """Find a stored join in a graph.

    The order of its starts doesn't count, renamed nodes are followed, and a start that is gone is
    not waited for: those that run in its place are, if they are starts. Another start that a
    thread has passed would never arrive: only a migration can say what then.

    Returns: None for the channel of anything else.
    """
    parts = join_parts(channel)
    if parts is None:
        return None
    renames = plan.renames
    end = renames.node(parts[1])
    into = renames.instead(parts[1]) if end is None else (end,)
    known = {start for one in into for _, names in _joins_to(plan, one) for start in names}
    starts = {name: to for name in parts[0] if (to := _start_now(plan, name, known))}
    names = frozenset(one for to in starts.values() for one in to)
    if channel in plan.channels:
        return JoinNow(channel, starts)
    if end is None:
        # The starts that have arrived count at the node that runs in place of the removed one.
        led = [c for one in into if (c := join_name(names, one)) in plan.channels]
        return JoinNow(led[0], starts) if len(led) == 1 else JoinNow(None)
    same = join_name(names, end)
    if same in plan.channels:
        return JoinNow(same, starts)
    if end in renames.joins and renames.joins[end] is None:
        return JoinNow(None)
    found = [(c, wanted) for c, wanted in _joins_to(plan, end) if wanted.intersection(names)]
    if len(found) == 1:
        name, wanted = found[0]
        more = renames.joins.get(end)
        if more is not None or wanted.issubset(names):
            kept = {old: tuple(n for n in now if n in wanted) for old, now in starts.items()}
            return JoinNow(name, kept, tuple(n for n in more or () if n in wanted))
    return JoinNow(channel, starts)


def _start_now(plan: Plan, name: str, known: AbstractSet[str]) -> tuple[str, ...]:
    now = plan.renames.node(name)
    if now is not None:
        return (now,)
    return tuple(one for one in plan.renames.instead(name) if one in known)


def _joins_to(plan: Plan, end: str) -> Iterable[tuple[str, frozenset[str]]]:
    for channel in plan.channels:
        parts = join_parts(channel)
        if parts is not None and parts[1] == end:
            yield channel, parts[0]
