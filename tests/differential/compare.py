"""Where two traces of one spec differ, apart from what allowed.toml excuses."""

from copy import deepcopy
from typing import Any, NamedTuple

from tests.differential.rules import excuses
from tests.differential.spec_rules import lost_silently
from tests.differential.trace import Cut, Spec, Trace

PARTS = ("given", "outcome", "state", "history", "calls")


class Verdict(NamedTuple):
    """The differences, None without any; the entries of the list that were needed."""

    difference: str | None
    excused: tuple[str, ...]


def compare(spec: Spec, ours: Trace, theirs: Trace) -> Verdict:
    """Compare turn by turn, up to the first cut of a rule."""
    lost = lost_silently(spec, ours)
    if lost is not None:
        return Verdict(lost, ())
    ours, theirs = deepcopy(ours), deepcopy(theirs)
    cuts = excuses(spec, ours, theirs)
    cut = min(cuts.values(), default=None)
    found = _difference(ours, theirs, None)
    edited = tuple(name for name, (turn, _) in cuts.items() if turn >= len(ours))
    if found is None or cut is None:
        return Verdict(found, edited)
    return Verdict(_difference(ours, theirs, cut), tuple(cuts))


def _difference(ours: Trace, theirs: Trace, cut: Cut | None) -> str | None:
    for turn, (here, there) in enumerate(zip(ours, theirs, strict=False)):
        last = cut is not None and turn == cut[0]
        for part in cut[1] if cut is not None and last else PARTS:
            if here.get(part) != there.get(part):
                where = f"turn {turn} ({there['given']})"
                return f"{where}: {describe(part, here.get(part), there.get(part))}"
        if last:
            return None
    if len(ours) != len(theirs):
        return f"{len(ours)} turns here, {len(theirs)} there"
    return None


def describe(where: str, here: Any, there: Any) -> str:
    """The innermost place at which two values differ."""
    if isinstance(here, dict) and isinstance(there, dict):
        for key in [*there, *here]:
            if here.get(key) != there.get(key):
                return describe(f"{where}.{key}", here.get(key), there.get(key))
    if isinstance(here, list) and isinstance(there, list) and len(here) == len(there):
        for index, (one, other) in enumerate(zip(here, there, strict=True)):
            if one != other:
                return describe(f"{where}[{index}]", one, other)
    return f"{where}\n    actorgraph: {here}\n    LangGraph:  {there}"
