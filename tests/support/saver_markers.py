"""The markers `every_saver`, `every_loop`, `every_case`, `one_loop`, `long`: which cases run.

A test of the fixtures `store`, `saver` or `place` is collected for every kind and both event loops.
Most need not run on all of them, so without a marker it runs on memory on asyncio, and on SQLite on
both loops. The other cases are deselected, and pytest counts them as such.

every_saver            on SQLite in memory, PostgreSQL and JSON lines too, on asyncio
every_loop             with `--long` on trio too, on each kind that it runs on
every_loop("jsonl")    on trio too, on the kinds named; with `--long` on each
every_case             each case on trio and on each kind: see below
first_case             the first case alone on trio and on further kinds: see below
each_value             each value of each parameter, not each combination of them: see below
one_loop               on trio only with `--long`: a test of any fixtures, for which a second loop
                       takes long and shows little
long                   only with `--long`

What a loop or a store does seldom depends on the values of a test's parameters. So of each function
the first case alone runs on trio, and on the kinds that only `every_saver` adds; the others do with
`--long`. Folders whose subject are loops or stores are exempt (`LOOP_ROOMS`, `STORE_ROOMS`), and
tests marked `every_case`: their parameters are about them. In those folders `first_case` asks for
the rule. Of a test marked `each_value` a case runs that has a value which no earlier one has; the
other combinations run with `--long`.

Each case of tests/faults runs. A marker by which nothing is chosen is refused.

The marker nearest to the test counts: on the function, its class, or the module (`pytestmark`).
`make faults` runs with `--long` the cases that `make test` leaves out.
A test of `shelf` (stores for long-term memory) runs on every kind, on PostgreSQL only with asyncio.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache

import pytest

from tests.support.every_saver import KINDS

SLOW_KINDS = {"jsonl", "postgres"}
"""The kinds that a test runs on only if it is marked `every_saver`."""

FURTHER_KINDS = {"sqlite-memory", *SLOW_KINDS}
"""The kinds that show what another one has shown, but for how they store it."""

ASYNCIO_KINDS = {"store": {"sqlite-memory", *SLOW_KINDS}, "shelf": {"postgres"}}
"""Fixture -> the kinds on which a test runs on trio only if it is marked `every_loop`."""

ASYNCIO_KINDS["place"] = ASYNCIO_KINDS["store"]
FAULTS = "tests/faults/"
"""Each case of its tests runs, whatever its marks: `make faults` is where cases are left to."""
KIND_NAMES = ("every_saver", "every_loop")
"""The markers that choose the kinds of a test."""

CASE_NAMES = ("first_case", "each_value", "every_case")
"""The markers that choose among the cases of a function."""

NAMES = {*KIND_NAMES, *CASE_NAMES, "one_loop", "long"}
LOOP_ROOMS = ("tests/runtime/", "tests/dispatch/", "tests/storage/")
"""Folders whose tests run on trio in each case: how tasks and threads work is their subject."""
STORE_ROOMS = ("tests/savers/", "tests/runtime/", "tests/storage/", "tests/stores/")
"""Folders whose tests run on each kind in each case: what is stored is their subject."""


def needed(items: Sequence[pytest.Item], *, long: bool, whole_files: bool) -> list[pytest.Item]:
    """The cases that must run, in the same order.

    Args:
        items: what was collected, before anything is deselected.
        long: whether the cases are meant that do not run otherwise.
        whole_files: whether all cases of each test are in `items`; a case that is asked for by its
            name is not left out because there is a first one.
    """
    kept = {item for item in items if item.nodeid.startswith(FAULTS) or is_needed(item)}
    if whole_files:
        kept = set(_first_cases([item for item in items if item in kept]))
    if not long:
        return [item for item in items if item in kept]
    return [item for item in items if item not in kept and _is_asked_for(item, long=True)]


def _first_cases(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Leave out further cases of functions in places that they show nothing new about."""
    further = [item for item, kind, new in _later_cases(items) if _is_further(item, kind, new=new)]
    left_out = set(further)
    return [item for item in items if item not in left_out]


def _later_cases(items: Sequence[pytest.Item]) -> Iterator[tuple[pytest.Item, str | None, bool]]:
    """Yield each case that isn't its function's first on its kind and its loop.

    With it its kind, and whether a parameter has a value that it had in no case before.
    """
    seen = dict[tuple[str, str | None, bool], set[tuple[str, object]]]()
    for item in items:
        fixture = _fixture_of(item)
        kind = item.callspec.params[fixture] if fixture else None  # type: ignore[attr-defined]
        place = item.nodeid.partition("[")[0], kind, _is_on_trio(item)
        values = _values(item)
        if place in seen:
            yield item, kind, not values <= seen[place]
        seen.setdefault(place, set()).update(values)


def _is_further(
    item: pytest.Item, kind: str | None, *, new: bool, ignored: str | None = None
) -> bool:
    """Whether a case that is not its function's first in a place is left out there.

    Args:
        new: whether a parameter has a value that it had in no case before.
        ignored: decide as if there weren't this marker.
    """

    def has(name: str) -> bool:
        return name != ignored and _marker(item, name) is not None

    if item.nodeid.startswith(FAULTS):
        return False
    if not new and has("each_value"):
        return True
    on_trio, on_kind = _is_on_trio(item), kind in FURTHER_KINDS
    if not has("first_case"):
        on_trio = on_trio and not item.nodeid.startswith(LOOP_ROOMS)
        on_kind = on_kind and not item.nodeid.startswith(STORE_ROOMS)
    return (on_trio or on_kind) and not has("every_case")


def _values(item: pytest.Item) -> set[tuple[str, object]]:
    """The values of a case's parameters by their names, but for its kind and its loop.

    An object is itself: some have no equality.
    """
    params = item.callspec.params if hasattr(item, "callspec") else {}
    plain = (str, bool, int, type(None))
    return {
        (name, value if isinstance(value, plain) else id(value))
        for name, value in params.items()
        if name not in {"anyio_backend", *ASYNCIO_KINDS}
    }


def is_needed(item: pytest.Item, *, long: bool = False) -> bool:
    """Whether a case must run for its kind of storage and its event loop: they are asked for.

    Args:
        long: whether the cases are meant that do not run otherwise.
    """
    return _is_asked_for(item, long=long) and not (long and _is_asked_for(item, long=False))


def _is_asked_for(item: pytest.Item, *, long: bool) -> bool:
    if not long and _marker(item, "long"):
        return False
    if not long and _marker(item, "one_loop") and _is_on_trio(item):
        return False
    fixture = _fixture_of(item)
    if fixture is None:
        return True
    params = item.callspec.params  # type: ignore[attr-defined]
    kind = params[fixture]
    every_saver = fixture == "shelf" or _marker(item, "every_saver")
    if kind in (SLOW_KINDS if long else FURTHER_KINDS) and not every_saver:
        return False
    if params.get("anyio_backend") != "trio":
        return True
    loops = _marker(item, "every_loop")
    if kind in ASYNCIO_KINDS[fixture]:
        return loops is not None and (long or kind in loops.args)
    is_further = fixture != "shelf" and kind == "memory"
    return long or not is_further or (loops is not None and kind in loops.args)


def check(items: Sequence[pytest.Item], *, whole_files: bool) -> None:
    """Refuse markers that have no effect.

    Args:
        items: what was collected, before anything is deselected.
        whole_files: whether all tests of each file are in `items`; only then can a marker of a
            class or a module be found to mark nothing.

    Raises: pytest.UsageError.
    """
    marked = dict[pytest.Item | pytest.Collector, bool]()
    on_one = dict[str, bool]()
    for item in items:
        for node, mark in _markers(item):
            _check_arguments(node, mark)
            if mark.name == "one_loop" and whole_files:
                name = node.nodeid.partition("[")[0]
                on_one[name] = on_one.get(name, False) or _is_on_trio(item)
            elif mark.name in KIND_NAMES and (whole_files or node is item):
                marked[node] = marked.get(node, False) or _fixture_of(item) is not None
    if useless := sorted(node.nodeid for node, has_kinds in marked.items() if not has_kinds):
        raise pytest.UsageError(
            "every_saver and every_loop mark tests of the fixtures store, saver, place and shelf; "
            f"these have none: {', '.join(useless)}"
        )
    if useless := sorted(name for name, is_seen in on_one.items() if not is_seen):
        raise pytest.UsageError(
            f"one_loop marks tests that run on trio; these do not: {', '.join(useless)}"
        )
    if whole_files:
        _check_case_markers(items)


def _check_case_markers(items: Sequence[pytest.Item]) -> None:
    """Refuse a marker without which the same cases of its tests would run."""
    nearest = {item: names for item in items if (names := _case_markers(item))}
    marked = {one for names in nearest.values() for one in names}
    useful = set[tuple[str, str]]()
    for item, kind, new in _later_cases([item for item in nearest if is_needed(item)]):
        is_further = _is_further(item, kind, new=new)
        for name, where in nearest[item]:
            if _is_further(item, kind, new=new, ignored=name) != is_further:
                useful.add((name, where))
    if useless := sorted(marked - useful):
        raise pytest.UsageError(
            "first_case, each_value and every_case choose among the cases of a test; these choose "
            f"none: {', '.join(f'{name} of {where}' for name, where in useless)}"
        )


def _case_markers(item: pytest.Item) -> set[tuple[str, str]]:
    """The markers in `CASE_NAMES` of a case, each with the function, the class or the file."""
    found = {mark.name: node for node, mark in reversed(_markers(item)) if mark.name in CASE_NAMES}
    return {(name, node.nodeid.partition("[")[0]) for name, node in found.items()}


def _marker(item: pytest.Item, name: str) -> pytest.Mark | None:
    """The marker of this name that is nearest to a case."""
    return next((mark for _, mark in _markers(item) if mark.name == name), None)


def _markers(
    item: pytest.Item | pytest.Collector | None,
) -> tuple[tuple[pytest.Item | pytest.Collector, pytest.Mark], ...]:
    """The markers in `NAMES` of a case and of what it is in, with where they are; nearest first."""
    if item is None:
        return ()
    own = [(item, mark) for mark in getattr(item, "own_markers", ()) if mark.name in NAMES]
    above = _markers_above(getattr(item, "parent", None))
    return (*own, *above) if own else above


_markers_above = lru_cache(maxsize=64)(_markers)
"""Once for each class and each file: there are sixty cases to one of them."""


def _fixture_of(item: pytest.Item) -> str | None:
    """The fixture by which a case has its kind of storage; None: it has none."""
    params = item.callspec.params if hasattr(item, "callspec") else {}
    return next((fixture for fixture in ASYNCIO_KINDS if params.get(fixture) in KINDS), None)


def _is_on_trio(item: pytest.Item) -> bool:
    params = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return any(isinstance(value, str) and value == "trio" for value in params)


def _check_arguments(node: pytest.Item | pytest.Collector, mark: pytest.Mark) -> None:
    known = KINDS if mark.name == "every_loop" else []
    if mark.kwargs or not set(mark.args) <= set(known):
        raise pytest.UsageError(
            f"{node.nodeid}: {mark.name} takes {', '.join(known) or 'no arguments'}, "
            f"got {mark.args} {mark.kwargs or ''}"
        )
