"""Show snapshots to people: one line for terminals, tables for notebooks.

Values are shown by their size in text, by a short excerpt in tables. Everything of the program is
escaped, so that a stored value can't run code in a notebook.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import islice
from typing import Any, cast

from actorgraph.errors.excerpts import cut_text, shown, size_text

NAMES_MAX = 8
ROWS_MAX = 100
NAME_CHARACTERS_MAX = 60
_EMPTY: Mapping[str, Any] = {}
_STYLE = 'style="text-align:left;vertical-align:top"'


Snapshot = Any
"""A `StateSnapshot`, whose module imports this one."""


def snapshot_parts(snapshot: Snapshot) -> Iterator[tuple[str, Any]]:
    """Yield the parts of a snapshot that a person looks for first, by name."""
    place = _place(snapshot)
    yield "thread", place.get("thread_id")
    if place.get("checkpoint_ns"):
        yield "subgraph", place["checkpoint_ns"]
    if snapshot.created_at is None:
        yield "checkpoint", None
        return
    yield "step", (snapshot.metadata or _EMPTY).get("step")
    yield "next", tuple(snapshot.next)
    if snapshot.interrupts:
        yield "asks", shown(snapshot.interrupts[0].value, NAME_CHARACTERS_MAX)
    if len(snapshot.interrupts) > 1:
        yield "questions", len(snapshot.interrupts)
    if snapshot.failed_node is not None:
        yield "failed", snapshot.failed_node
    yield "values", _sizes(snapshot.values)


def snapshot_line(snapshot: Snapshot) -> str:
    """Return one line about a snapshot: its thread, step, next nodes, question, sizes of values."""
    try:
        parts = [
            f"{name}={value if name in _AS_TEXT else shown(value, NAME_CHARACTERS_MAX)}"
            for name, value in snapshot_parts(snapshot)
        ]
        return f"<{_NAME} {' '.join(parts)}>"
    except Exception:  # noqa: BLE001 - made by a program, of any values
        return f"<{_NAME}>"


_AS_TEXT = ("asks", "values")
_NAME = "StateSnapshot"


def snapshot_table(snapshot: Snapshot) -> str:
    """Return a snapshot as HTML: a line of facts, and a table of its values."""
    facts = [(k, v) for k, v in snapshot_parts(snapshot) if k != "values"]
    line = " &middot; ".join(f"{escape(k)} <b>{_text(v)}</b>" for k, v in facts)
    rows = [
        (escape(cut_text(str(key), NAME_CHARACTERS_MAX)), escape(size_text(v)), escape(shown(v)))
        for key, v in _pairs(snapshot.values)
    ]
    return f"<div>{line}</div>{_table(('key', 'size', 'value'), rows)}"


def history_table(snapshots: Sequence[Snapshot]) -> str:
    """Return snapshots as an HTML table, one row each, at most 100."""
    rows: list[tuple[str, ...]] = []
    for snapshot in snapshots[:ROWS_MAX]:
        metadata = snapshot.metadata or _EMPTY
        asked = [shown(each.value, NAME_CHARACTERS_MAX) for each in snapshot.interrupts[:3]]
        rows.append(
            tuple(
                escape(text)
                for text in (
                    str(metadata.get("step", "")),
                    str(metadata.get("source", "")),
                    ", ".join(snapshot.next) or "(end)",
                    f"failed: {snapshot.failed_node}" if snapshot.failed_node else ", ".join(asked),
                    _sizes(snapshot.values),
                    str(snapshot.created_at or "")[:19],
                    str(_place(snapshot).get("checkpoint_id", "")),
                )
            )
        )
    more = len(snapshots) - ROWS_MAX
    note = f"<div>and {more} more</div>" if more > 0 else ""
    names = ("step", "source", "next", "question", "values", "created", "checkpoint")
    return _table(names, rows) + note


def _place(snapshot: Snapshot) -> Mapping[str, Any]:
    return (snapshot.config or _EMPTY).get("configurable") or _EMPTY


def _pairs(values: Any) -> list[tuple[Any, Any]]:
    if isinstance(values, Mapping):
        return list(islice(cast("Mapping[Any, Any]", values).items(), ROWS_MAX))
    return [("", values)]


def _sizes(values: Any) -> str:
    if not isinstance(values, Mapping):
        return size_text(values)
    known = cast("Mapping[Any, Any]", values)
    parts = [
        f"{cut_text(str(key), NAME_CHARACTERS_MAX)}: {size_text(value)}"
        for key, value in islice(known.items(), NAMES_MAX)
    ]
    more = len(known) - NAMES_MAX
    return "{" + ", ".join(parts) + (f", ... {more} more" if more > 0 else "") + "}"


def _text(value: Any) -> str:
    text = (
        ", ".join(map(str, cast("tuple[Any, ...]", value))) if type(value) is tuple else str(value)
    )
    return escape(cut_text(text, NAME_CHARACTERS_MAX)) or "(end)"


def _table(names: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = "".join(f"<th {_STYLE}>{name}</th>" for name in names)
    body = "".join(
        "<tr>" + "".join(f"<td {_STYLE}>{cell}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
