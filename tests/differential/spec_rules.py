"""The rules of what extras.py gives a spec: classes as states, hand-overs, tools, changes."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from tests.differential.changes import changed
from tests.differential.extras import graphs_of
from tests.differential.schemas import EMPTY, defaults_of
from tests.differential.trace import Cut, Spec, Trace

SEEN = ("outcome", "state", "history")
REDUCED = ("append", "sum", "max")


def defaults_left_out(spec: Spec, ours: Trace, theirs: Trace) -> Cut | None:
    """Takes a key with its declared default out of results and values where one side lacks it."""
    defaults = class_defaults(spec)
    found = [
        _drop(here.get(part), there.get(part), defaults)
        for here, there in zip(ours, theirs, strict=False)
        for part in SEEN
    ]
    return (len(ours), ()) if any(found) else None


def class_defaults(spec: Spec) -> dict[str, Any]:
    """The default of each key, if classes declare them."""
    if all(graph.get("schema", "typed") == "typed" for graph in graphs_of(spec)):
        return {}
    return dict(zip(spec["channels"], defaults_of(spec), strict=True))


def _drop(here: Any, there: Any, defaults: dict[str, Any]) -> bool:
    found = False
    if isinstance(here, dict) and isinstance(there, dict):
        for one, other in ((here, there), (there, here)):
            for key in [k for k in one if k in defaults and k not in other]:
                if one[key] == defaults[key]:
                    found = True
                    del one[key]
        inner = [_drop(here[k], there[k], defaults) for k in here if k in there]
        return found or any(inner)
    if isinstance(here, list) and isinstance(there, list) and len(here) == len(there):
        found = [_drop(*pair, defaults) for pair in zip(here, there, strict=True)]
        return any(found)
    return False


def defaults_begin(spec: Spec, ours: Trace, theirs: Trace) -> Cut | None:
    """A key with a reducer whose class declares another default than the reducer begins with."""
    kinds, defaults = spec["channels"], class_defaults(spec)
    declared = {k for k, v in defaults.items() if kinds[k] in REDUCED and v != EMPTY[kinds[k]]}
    for turn, (here, there) in enumerate(zip(ours, theirs, strict=False)):
        parts = [(here.get(part), there.get(part)) for part in SEEN]
        if any(key in declared for part in parts for key, *_ in _differing(*part)):
            return turn, ()
    return None


def defaults_overwrite(spec: Spec, ours: Trace, theirs: Trace) -> Cut | None:
    """LangGraph wrote the default of a field that an object of a pydantic model did not set."""
    if all(graph.get("schema") != "pydantic" for graph in graphs_of(spec)):
        return None
    kinds, defaults = spec["channels"], class_defaults(spec)
    for turn, (here, there) in enumerate(zip(ours, theirs, strict=False)):
        for part in SEEN:
            for key, one, other in _differing(here.get(part), there.get(part)):
                if kinds.get(key) not in REDUCED and other == defaults.get(key, one) != one:
                    return turn, ()
        errors = here["outcome"].get("error"), there["outcome"].get("error")
        if errors == (None, "InvalidUpdateError"):
            return turn, ()  # two tasks wrote a default that neither has set
    return None


def _differing(here: Any, there: Any) -> Iterator[tuple[str, Any, Any]]:
    """The innermost keys whose values differ."""
    if isinstance(here, dict) and isinstance(there, dict):
        for key in {**here, **there}:
            one, other = here.get(key), there.get(key)
            if one != other:
                inner = list(_differing(one, other))
                yield from inner or [(key, one, other)]
    elif isinstance(here, list) and isinstance(there, list) and len(here) == len(there):
        for one, other in zip(here, there, strict=True):
            yield from _differing(one, other)


def a_command_beside_others(spec: Spec, ours: Trace, theirs: Trace) -> Cut | None:
    """A nested superstep had a Command for the graph above and another task."""
    for turn, (here, there) in enumerate(zip(ours, theirs, strict=False)):
        if here.get("beside") or there.get("beside"):
            return turn, ()
    return None


def a_change_that_loses(spec: Spec, ours: Trace, theirs: Trace) -> Cut | None:
    """Refused before anything ran, where the thread needs what the changed graph has not."""
    for turn, here in enumerate(ours[: len(theirs)]):
        parts = [here["outcome"], here["state"], *here.get("history", ())]
        errors = [part.get("error") for part in parts if part]
        if "SchemaMismatchError" in errors and not here["ran"]:
            return (turn, ()) if loses(spec, theirs[: turn + 1]) else None
    return None


def loses(spec: Spec, trace: Trace) -> bool:
    """Whether LangGraph dropped something: a task, a write, or what had arrived at a join."""
    after = changed(spec)
    gone = {*spec["nodes"]} - {*after["nodes"]}
    place = next((i for i, entry in enumerate(trace) if entry["given"] == "change"), 0)
    if not place or spec.get("migrates"):
        return False
    before = trace[place - 1]
    points = [before["state"], *before.get("history", ())]
    # A finished task of an unfinished superstep may have written an edge to a node that is gone.
    finished = any(t[4] is not None for t in before["state"].get("tasks", ()))
    named = {name for point in points for name in point.get("next", ())}
    named |= {task[0] for point in points for task in point.get("tasks", ())}
    named |= {name for name, node in spec["nodes"].items() if node.get("defer")}
    return bool(gone & named or (gone and finished) or joins(spec) - joins(after))


def joins(spec: Spec) -> set[tuple[frozenset[str], str]]:
    """The joins of a graph, without their order."""
    return {(frozenset(s), target) for s, target in spec["edges"] if isinstance(s, list)}


def a_join_named_otherwise(spec: Spec, ours: Trace, theirs: Trace) -> Cut | None:
    """LangGraph drops what has arrived at a join whose starts have another order.

    So it does with the results and questions of the node that the join leads to.
    """
    if spec.get("migrates"):
        return None
    known = [edge for edge in spec["edges"] if isinstance(edge[0], list)]
    after = [edge for edge in changed(spec)["edges"] if isinstance(edge[0], list)]
    turned = {target for starts, target in after if [starts, target] not in known}
    since = False
    for turn, (here, there) in enumerate(zip(ours, theirs, strict=False)):
        since = since or there["given"] == "change"
        points = zip(_points(here), _points(there), strict=False)
        if since and any(turned & {name for _, name in one - other} for one, other in points):
            return turn, ()
    return None


def _points(entry: dict[str, Any]) -> list[set[tuple[str, str]]]:
    """The nodes that are due and those with results or questions: now, and from the oldest on."""
    points = [entry["state"], *reversed(entry.get("history", ()))]
    return [
        {("due", name) for name in point.get("next", ())}
        | {("done", task[0]) for task in point.get("tasks", ()) if task[3] or task[4]}
        for point in points
    ]


def calls_beside_a_question(spec: Spec, ours: Trace, theirs: Trace) -> Cut | None:
    """Takes over our number of calls of tools, once one that a message asked for has a question."""
    beside = any(
        node.get("by") == "message" and "ask" in node.get("calls", ())
        for node in spec["nodes"].values()
    )
    found = False
    for here, there in zip(ours, theirs, strict=False) if beside else ():
        own, other = here.get("calls", {}), there.get("calls", {})
        for name in {name for name in {**own, **other} if name.startswith("tools/")}:
            found |= own.get(name) != other.get(name)
            other[name] = own.get(name, 0)
        for calls in (own, other):
            calls |= {name: 0 for name in {**own, **other} if name not in calls}
    return (len(ours), ()) if found else None


def lost_silently(spec: Spec, ours: Trace) -> str | None:
    """A sentence about a node that waited before a change, and is neither there nor refused."""
    if spec.get("migrates"):
        return None  # its names are there as they were
    gone = {*spec["nodes"]} - {*changed(spec)["nodes"]}
    for before, entry in pairwise(ours):
        state = entry["state"]
        if entry["given"] == "change" and "error" not in {**state, **entry["outcome"]}:
            lost = gone & {*before["state"].get("next", ())}
            if lost:
                return f"the change has lost {sorted(lost)} without a word"
    return None
