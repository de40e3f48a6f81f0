"""Bugs in the code of one saver: its statements and its bookkeeping, each changed by a word."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NamedTuple

import msgspec
import pytest

from actorgraph.codec.records import frame, frames
from actorgraph.savers.jsonl.index import ThreadIndex
from actorgraph.values.ids import as_bytes


class Own(NamedTuple):
    """A bug of one kind of saver.

    Attributes:
        kind: which. module: below `actorgraph.savers`. name: what is changed in it.
        change: makes the wrong thing of the right one.
    """

    kind: str
    bug: str
    module: str
    name: str
    change: Callable[[Any], Any]


@contextmanager
def planted(own: Own) -> Iterator[None]:
    """The saver with the bug."""
    with pytest.MonkeyPatch.context() as patch:
        target: Any = import_module(f"actorgraph.savers.{own.module}")
        *parts, name = own.name.split(".")
        for part in parts:
            target = getattr(target, part)
        patch.setattr(target, name, own.change(getattr(target, name)))
        yield


def instead(words: dict[str, str]) -> Callable[[Any], Any]:
    """A statement, or each of several, with other words."""

    def change(text: Any) -> Any:
        if isinstance(text, dict):
            return {key: change(part) for key, part in text.items()}
        for old, new in words.items():
            assert old in text, (old, text)
            text = text.replace(old, new)
        return text

    return change


def less(place: int) -> Callable[[Any], Any]:
    """Statements without one of them."""
    return lambda texts: tuple(text for text in texts if text is not texts[place])


def _no_writes_copied(copied: Any) -> Any:
    def change(*arguments: Any) -> Any:
        thread = copied(*arguments)
        thread.ledger = {}
        return thread

    return change


def _no_heads(take_out: Any) -> Any:
    def change(thread: Any, found: Any) -> None:
        take_out(thread, msgspec.structs.replace(found, heads={}))

    return change


def _no_parents(function: Any) -> Any:
    def change(first: Any, found: Any, *more: Any, **options: Any) -> Any:
        return function(first, msgspec.structs.replace(found, parents=[]), *more, **options)

    return change


def _ids_without_namespace(put: Any) -> Any:
    def change(thread: Any, places: Any) -> None:
        put(thread, places)
        for place in places:
            for namespace in ("", "n"):
                thread.by_id[namespace, place.row.id] = place

    return change


def _ids_of_a_file(add: Any) -> Any:
    def change(index: Any, line: Any, start: int, end: int) -> None:
        add(index, line, start, end)
        for place in index.places[len(index.places) - len(line.checkpoints) :]:
            index.by_id.setdefault(("n", place.id), place)

    return change


def _backwards(read: Any) -> Any:
    """The rows of a list, the last one first."""

    def change(*arguments: Any, **options: Any) -> Any:
        found = read(*arguments, **options)
        if isinstance(found, list):
            return found[::-1]
        ranges = {key: rows[::-1] for key, rows in found.ranges.items()}
        return msgspec.structs.replace(found, ranges=ranges)

    return change


def _items_backwards(read: Any) -> Any:
    """The items of a row, what was added last first."""

    def change(*arguments: Any) -> Any:
        return [
            msgspec.structs.replace(row, payload=b"".join(map(frame, [*frames(row.payload)][::-1])))
            for row in read(*arguments)
        ]

    return change


def _thread_as_it_was(_: Any) -> Any:
    """A removal or a copy leaves the thread's own row alone."""
    return lambda cursor, thread: None


def _bounds_by_id_alone(matches: Any) -> Any:
    def change(thread: Any, place: Any, query: Any) -> bool:
        return matches(thread, place, msgspec.structs.replace(query, namespace=None))

    return change


def _last_line_lost(load: Any) -> Any:
    def change(thread_id: str, path: str, epoch: int) -> Any:
        found = load(thread_id, path, epoch)
        if len(found.starts) < 2:
            return found
        made = ThreadIndex(thread_id, path, epoch)
        for line in list(found.lines())[:-1]:
            number = line.line
            made.add(line, found.starts[number - 1], found.starts[number])
        return made

    return change


def _stale_index(remember: Any) -> Any:
    def change(folder: Any, index: Any) -> None:
        if index.thread_id not in folder._indexes:  # noqa: SLF001 - the bug is in there
            remember(folder, index)

    return change


def _ledger_of_a_file_once(add: Any) -> Any:
    """Of several lines with one task's rows, the newest line counts."""

    def change(index: Any, line: Any, start: int, end: int) -> None:
        for entry in line.ledger:
            rows = index.ledger.get((line.namespace, as_bytes(entry.base)), {})
            for key in [key for key in rows if key[0] != entry.key[0]]:
                del rows[key]
        add(index, line, start, end)

    return change


_SQLITE = {
    "a copy without writes": ("COPY_THREAD", less(3)),
    "a copy without values": ("COPY_THREAD", less(2)),
    "the last write wins": ("INSERT_WRITE", instead({"IGNORE": "REPLACE"})),
    "a page has its bound": ("SELECT_PAGE", instead({"c.seq < min": "c.seq <= min"})),
    "a filter of keys alone": ("SELECT_PAGE", instead({"AND d.value IS m.value": ""})),
    "any namespace": ("SELECT_BY_ID", instead({"c.namespace = ?": "? IS NOT NULL"})),
    "removed writes of any namespace": (
        "DELETE_WRITES",
        instead({"namespace = ?": "? IS NOT NULL"}),
    ),
    "items put in front": ("EXTEND_RANGE", instead({"payload || ?": "? || payload"})),
    "rows put together backwards": ("SELECT_MERGED", instead({"BY start": "BY start DESC"})),
    "dangling parents": (
        "UPDATE_PARENT",
        instead({"parent = ?": "parent = coalesce(parent, ?)"}),
    ),
    "a deleted thread's writes": ("DELETE_THREAD", less(3)),
}
_POSTGRES = {
    "a copy without writes": ("statements", "COPY_THREAD", less(3)),
    "a copy without values": ("statements", "COPY_THREAD", less(2)),
    "a page has its bound": (
        "queries",
        "SELECT_PAGE",
        instead({"c.seq < (": "c.seq <= (", "c.seq < CASE": "c.seq <= CASE"}),
    ),
    "a page of any namespace": (
        "queries",
        "SELECT_PAGE",
        instead({"c.namespace = %(namespace)s": "%(namespace)s::text IS NOT NULL"}),
    ),
    "a filter of source alone": (
        "queries",
        "SELECT_PAGE",
        instead({"IS DISTINCT FROM m.value": "IS DISTINCT FROM m.value AND false"}),
    ),
    "any namespace": (
        "queries",
        "SELECT_LOADS",
        instead({"AND c.namespace || '' = w.namespace": ""}),
    ),
    "removed writes of any namespace": (
        "statements",
        "DELETE_WRITES",
        instead({"r.namespace = w.namespace": "w.namespace IS NOT NULL"}),
    ),
    "removed checkpoints of any namespace": (
        "statements",
        "DELETE_CHECKPOINTS",
        instead({"c.namespace = w.namespace AND c.seq = w.seq": "c.seq >= w.seq"}),
    ),
    "values of any version removed": (
        "statements",
        "DELETE_BLOBS",
        instead({"AND b.version = w.version": ""}),
    ),
    "whole lists removed": ("statements", "DELETE_RANGES", instead({"AND r.start = w.start": ""})),
    "the last write wins": (
        "statements",
        "INSERT_WRITES",
        instead(
            {
                "DO NOTHING": "(thread, namespace, checkpoint, task, idx, generation) "
                "DO UPDATE SET payload = excluded.payload"
            }
        ),
    ),
    "items put in front": (
        "statements",
        "EXTEND_RANGES",
        instead({"r.payload || w.payload": "w.payload || r.payload"}),
    ),
    "rows put together backwards": (
        "statements",
        "MERGE_RANGES",
        instead({"ORDER BY start": "ORDER BY start DESC"}),
    ),
    "lists read backwards": ("reading", "FoundRows.checkpoint", _backwards),
    "the head of any namespace": (
        "queries",
        "SELECT_LOADS",
        instead({"AND h.namespace = w.namespace": ""}),
    ),
    "a stale head": ("retention", "_update", _thread_as_it_was),
    "dangling parents": (
        "statements",
        "UPDATE_PARENTS",
        instead({"parent = w.parent": "parent = coalesce(c.parent, w.parent)"}),
    ),
    "a deleted thread's writes": ("retention", "DELETE_THREAD", less(3)),
}
_MEMORY = {
    "a copy without writes": ("memory.saver", "copied", _no_writes_copied),
    "a stale head": ("memory.retention", "_take_out", _no_heads),
    "dangling parents": ("memory.retention", "_take_out", _no_parents),
    "any namespace": ("memory.retention", "_set_entries", _ids_without_namespace),
    "a page of any namespace": ("memory.saver", "_matches", _bounds_by_id_alone),
    "lists read backwards": ("memory.saver", "_read", _backwards),
}
_JSONL = {
    "a lost last line": ("folder", "load", _last_line_lost),
    "a stale index": ("folder", "Folder.remember", _stale_index),
    "dangling parents": ("retention", "_trimmed", _no_parents),
    "one task's writes": ("index", "ThreadIndex.add", _ledger_of_a_file_once),
    "any namespace": ("index", "ThreadIndex.add", _ids_of_a_file),
    "lists read backwards": ("reading", "_ThreadReader._list", _backwards),
    "items read backwards": ("reading", "_ThreadReader._list", _items_backwards),
}

OWN = [
    *(Own("memory", bug, *what) for bug, what in _MEMORY.items()),
    *(Own("sqlite", bug, "sqlite.schema", *what) for bug, what in _SQLITE.items()),
    *(Own("jsonl", bug, f"jsonl.{what[0]}", *what[1:]) for bug, what in _JSONL.items()),
    *(Own("postgres", bug, f"postgres.{what[0]}", *what[1:]) for bug, what in _POSTGRES.items()),
]
"""Bugs of every saver."""
