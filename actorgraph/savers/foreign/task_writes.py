"""Rows of pending writes as LangGraph's: `(task id, channel, value)`, in each task's order.

Finished tasks  their writes, then one to `__no_writes__` that holds the row's key; LangGraph reads
                that as a task without further writes
Control         errors, interrupts and answers go to LangGraph's channels, where the newest counts.
                The rest of their row is a note in a channel of ours, under an id that no task has
"""

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any, cast

from actorgraph.savers.foreign.payloads import (
    SaverStyle,
    convert_from_langgraph,
    live_payload,
    value_of,
)
from actorgraph.values.commits import LedgerRow
from actorgraph.values.constants import CONTROL_INDEX, CONVERTED, INTERRUPT, NO_WRITES, TIMES
from actorgraph.values.ids import as_bytes, as_text

NOTE_CHANNEL = "__actorgraph__"
"""Channel of data for which LangGraph's format has no place."""

PendingWrite = tuple[str, str, Any]
_NAMED = {CONTROL_INDEX[name]: name for name in ("__error__", "__interrupt__", "__resume__")}


def put_writes_calls(
    row: LedgerRow, style: SaverStyle
) -> list[tuple[str, list[tuple[str, Any]], str]]:
    """Return the calls of `put_writes` that store a row: (task id, writes, task path)."""
    task = as_text(row.task)
    mark: dict[str, Any] = {"path": row.path, "index": row.index, "generation": row.generation}
    held: list[tuple[str, Any]] = list(value_of(row.payload))
    if held and held[-1][0] == TIMES:  # LangGraph's readers would take it for a write
        mark["times"] = held.pop()[1]
    if held and held[-1][0] == CONVERTED:
        mark["converted"] = held.pop()[1]
    writes = [(channel, style.shown(value)) for channel, value in held]
    if row.index >= 0:
        return [(task, [*writes, (NO_WRITES, mark)], row.path)]
    if row.index in _NAMED:
        return [
            (task, writes, row.path),
            (_note_id(row), [(NOTE_CHANNEL, {"task": task, **mark})], row.path),
        ]
    note = {"task": task, **mark, "writes": [[channel, value] for channel, value in writes]}
    return [(_note_id(row), [(NOTE_CHANNEL, note)], row.path)]


def _note_id(row: LedgerRow) -> str:
    place = row.task + f"{row.index} {row.generation}".encode()
    return as_text(blake2b(place, digest_size=16).digest())


def ledger_rows(base: bytes, pending: Iterable[Sequence[Any]]) -> list[LedgerRow]:
    """Return the rows of pending writes; those that LangGraph wrote have no task path.

    Args:
        pending: in LangGraph's order.
    """
    own: dict[str, list[tuple[str, Any]]] = {}
    controls: dict[tuple[str, int], tuple[str, Any]] = {}
    notes: list[dict[str, Any]] = []
    for task, channel, value in pending:
        if channel == NOTE_CHANNEL:
            notes.append(value)
        elif channel in CONTROL_INDEX:
            controls[task, CONTROL_INDEX[channel]] = (channel, value)
        else:
            own.setdefault(task, []).append((channel, value))
    rows = [row for task, writes in own.items() for row in _finished(base, task, writes)]
    return [*rows, *_controls(base, controls, notes)]


def _finished(base: bytes, task: str, writes: list[tuple[str, Any]]) -> list[LedgerRow]:
    """Split a task's writes into rows: each ends with its mark."""
    by_key: dict[tuple[int, int], LedgerRow] = {}
    begun: list[tuple[str, Any]] = []
    for channel, value in writes:
        if channel != NO_WRITES or not isinstance(value, dict):
            begun.append((channel, value))
            continue
        mark = cast("dict[str, Any]", value)
        if "converted" in mark:
            begun.append((CONVERTED, mark["converted"]))
        key = (int(mark["index"]), int(mark["generation"]))
        by_key.setdefault(key, _row(base, task, (mark["path"], *key), begun, mark.get("times")))
        begun = []
    rows = list(by_key.values())
    if begun:
        index = 1 + max((row.index for row in rows), default=-1)
        rows.append(_row(base, task, ("", index, 0), begun))
    return rows


def _controls(
    base: bytes, controls: dict[tuple[str, int], tuple[str, Any]], notes: list[dict[str, Any]]
) -> list[LedgerRow]:
    rows: list[LedgerRow] = []
    newest: dict[tuple[str, int], dict[str, Any]] = {}
    for note in notes:
        place = (str(note["task"]), int(note["index"]))
        if "writes" in note:
            said = (note["path"], place[1], int(note["generation"]))
            writes = [(c, v) for c, v in note["writes"]]
            rows.append(_row(base, place[0], said, writes, note.get("times")))
        elif place not in newest or newest[place]["generation"] <= note["generation"]:
            newest[place] = note
    for (task, index), write in controls.items():
        note = newest.get((task, index), {})
        generation = int(note.get("generation", 0))
        said = (note.get("path", ""), index, generation)
        rows.append(_row(base, task, said, [write], note.get("times")))
    return rows


def _row(
    base: bytes,
    task: str,
    mark: tuple[str, int, int],
    writes: list[tuple[str, Any]],
    times: Any = None,
) -> LedgerRow:
    path, index, generation = mark
    held = [[channel, convert_from_langgraph(value, channel)] for channel, value in writes]
    payload = live_payload(held if times is None else [*held, [TIMES, times]])
    asks = index == CONTROL_INDEX[INTERRUPT]
    return LedgerRow(base, as_bytes(task), path, index, generation, payload, asks)
