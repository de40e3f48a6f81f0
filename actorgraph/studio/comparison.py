"""Two threads, runs or checkpoints side by side: steps aligned, states compared by key. Pure."""

from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, Literal

import msgspec

from actorgraph.studio.changes import changes
from actorgraph.studio.shown import Shown, plain, preview, shown
from actorgraph.studio.steps import ListedStep

Kind = Literal["same", "changed", "left", "right"]
KIND_TEXT = {"same": "equal", "changed": "differs", "left": "left only", "right": "right only"}


class Cell(msgspec.Struct, frozen=True):
    """A step of one side."""

    step: Any
    text: str
    checkpoint_id: str


class StepPair(msgspec.Struct, frozen=True):
    """A line of both sides; None where a side has no such step."""

    left: Cell | None
    right: Cell | None
    is_same: bool


class KeyRow(msgspec.Struct, frozen=True):
    """A key of the states: whether it is equal, and its differences, each with its path."""

    name: str
    kind: Kind
    preview: str
    rows: tuple["Difference", ...] = ()
    more: int = 0

    @property
    def kind_text(self) -> str:
        """How people read the kind."""
        return KIND_TEXT[self.kind]


class Difference(msgspec.Struct, frozen=True):
    """A place in a key's value that differs; None for a side without it."""

    path: str
    left: Shown | None
    right: Shown | None


def aligned(left: Sequence[ListedStep], right: Sequence[ListedStep]) -> list[StepPair]:
    """Align the steps of two sides by the nodes that they call.

    Args:
        left: oldest first.
        right: the same.
    Returns: each step once, in the order of both sides.
    """
    keys = [tuple(one.next) for one in left], [tuple(one.next) for one in right]
    found: list[StepPair] = []
    for tag, a, b, c, d in SequenceMatcher(None, *keys, autojunk=False).get_opcodes():
        lefts = [_cell(one) for one in left[a:b]]
        rights = [_cell(one) for one in right[c:d]]
        size = max(len(lefts), len(rights))
        lines = zip(_filled(lefts, size), _filled(rights, size), strict=True)
        found += [StepPair(one, other, tag == "equal") for one, other in lines]
    return found


def _filled(cells: Sequence[Cell], size: int) -> list[Cell | None]:
    return [*cells, *[None] * (size - len(cells))]


def _cell(step: ListedStep) -> Cell:
    return Cell(step.step, ", ".join(step.next) or "the end", step.checkpoint_id)


def compared(left: Any, right: Any) -> list[KeyRow]:
    """Compare two states key by key; those that differ come first."""
    a, b = _by_key(plain(left)), _by_key(plain(right))
    rows = [_key_row(name, a, b) for name in dict.fromkeys([*a, *b])]
    return sorted(rows, key=lambda row: row.kind == "same")


def _key_row(name: str, a: Mapping[str, Any], b: Mapping[str, Any]) -> KeyRow:
    if name not in b:
        return KeyRow(name, "left", preview(a[name]), (Difference(name, shown(a[name]), None),))
    if name not in a:
        return KeyRow(name, "right", preview(b[name]), (Difference(name, None, shown(b[name])),))
    found = changes({name: a[name]}, {name: b[name]})
    rows = tuple(
        Difference(
            row.path,
            None if row.kind == "added" else shown(row.before),
            None if row.kind == "removed" else shown(row.after),
        )
        for row in found.rows
    )
    return KeyRow(name, "changed" if rows else "same", preview(a[name]), rows, found.more)


def _by_key(state: Any) -> Mapping[str, Any]:
    if isinstance(state, dict):
        return state
    return {} if state is None else {"state": state}
