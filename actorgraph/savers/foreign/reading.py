"""Checkpoint tuples of LangGraph's interface as the rows that the runtime reads."""

from typing import Any

import msgspec

from actorgraph.codec.records import Record, encode_json, encode_record
from actorgraph.savers.foreign.payloads import convert_from_langgraph, live_payload, numbers_of
from actorgraph.savers.foreign.task_writes import ledger_rows
from actorgraph.savers.judge import sorted_ledger
from actorgraph.values.commits import CheckpointRow, ListCheckpoints, StoredCheckpoint
from actorgraph.values.constants import CHECKPOINT_FORMAT
from actorgraph.values.ids import as_bytes, ticks_of

EXTRA = "actorgraph"
"""Key in a checkpoint's metadata for data that LangGraph's format has no place for."""

COUNTERS = "counters_since_delta_snapshot"
_COLUMNS = frozenset({"source", "step", "run_id", COUNTERS, EXTRA})


def address_of(checkpoint_tuple: Any) -> tuple[str, str, bytes]:
    """Return thread id, namespace and checkpoint id of a tuple."""
    place = checkpoint_tuple.config["configurable"]
    checkpoint = as_bytes(checkpoint_tuple.checkpoint["id"])
    return str(place["thread_id"]), place.get("checkpoint_ns") or "", checkpoint


def parent_of(checkpoint_tuple: Any) -> bytes | None:
    """Return the id of a tuple's parent; None for none."""
    text = ((checkpoint_tuple.parent_config or {}).get("configurable") or {}).get("checkpoint_id")
    return as_bytes(text) if text else None


def record_of(checkpoint_tuple: Any) -> Record:
    """Return the record of a tuple's checkpoint, with every value in a row of its own."""
    checkpoint, metadata = checkpoint_tuple.checkpoint, checkpoint_tuple.metadata or {}
    extra = metadata.get(EXTRA) or {}
    values = checkpoint["channel_values"]
    # LangGraph's first checkpoint of a chain holds nothing of its deltas: they are empty there.
    counters = (metadata.get(COUNTERS) or {}) if parent_of(checkpoint_tuple) else {}
    updated = checkpoint.get("updated_channels")
    return Record(
        graph=extra.get("graph", ""),
        highest=extra.get("highest", 0),
        channel_versions=numbers_of(checkpoint["channel_versions"]),
        versions_seen={n: numbers_of(seen) for n, seen in checkpoint["versions_seen"].items()},
        updated_channels=None if updated is None else list(updated),
        blobs=sorted(values),
        deltas={c: (n, points) for c, (n, points) in counters.items() if c not in values},
        folds=extra.get("folds", True),
        shape=checkpoint.get("v", CHECKPOINT_FORMAT),
        converted=extra.get("converted", {}),
        above=extra.get("above", {}),
    )


def stored_checkpoint(checkpoint_tuple: Any) -> StoredCheckpoint:
    """Return the rows of a tuple.

    Raises:
        SerializationError: a version doesn't begin with a number.
    """
    thread_id, namespace, checkpoint = address_of(checkpoint_tuple)
    metadata = dict(checkpoint_tuple.metadata or {})
    extra = metadata.get(EXTRA) or {}
    run = _run_of(metadata)
    if run is not None:
        metadata.pop("run_id")
    if not metadata.get("parents"):
        metadata.pop("parents", None)
    row = CheckpointRow(
        id=checkpoint,
        parent=parent_of(checkpoint_tuple),
        step=int(metadata.get("step", -1)),
        source=str(metadata.get("source", "loop")),
        run=run,
        next=encode_json(list(extra.get("next", ()))),
        record=encode_record(record_of(checkpoint_tuple)),
        metadata=_as_json({k: v for k, v in metadata.items() if k not in _COLUMNS}, metadata),
    )
    values = checkpoint_tuple.checkpoint["channel_values"]
    blobs: dict[str, bytes] = {
        c: live_payload(convert_from_langgraph(value, c)) for c, value in values.items()
    }
    return StoredCheckpoint(
        thread_id=thread_id,
        namespace=namespace,
        sequence=ticks_of(checkpoint),
        row=row,
        blobs=blobs,
        ranges={},
        ends={},
        ledger=sorted_ledger(ledger_rows(checkpoint, checkpoint_tuple.pending_writes or ())),
    )


def matches(checkpoint_tuple: Any, query: ListCheckpoints) -> bool:
    """Whether a listing asks for a tuple."""
    thread_id, namespace, checkpoint = address_of(checkpoint_tuple)
    if query.thread_id not in (None, thread_id) or query.namespace not in (None, namespace):
        return False
    if query.before is not None and checkpoint >= query.before:
        return False
    metadata = checkpoint_tuple.metadata or {}
    return all(
        key in metadata and encode_json(metadata[key]) == encode_json(value)  # true is not 1
        for key, value in query.where
    )


def _run_of(metadata: dict[str, Any]) -> bytes | None:
    try:
        return as_bytes(str(metadata.get("run_id") or ""))
    except ValueError:
        return None


def _as_json(shown: dict[str, Any], metadata: dict[str, Any]) -> str:
    if "run_id" in metadata:  # a run id that is not a UUID
        shown["run_id"] = metadata["run_id"]
    return msgspec.json.encode(shown, enc_hook=str).decode()
