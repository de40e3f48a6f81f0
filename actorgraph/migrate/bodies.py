"""Decode a stored LangGraph checkpoint to its dict."""

from collections.abc import Mapping
from typing import Any, cast

from actorgraph.migrate.decode import Decoder
from actorgraph.migrate.sources import SourceCheckpoint
from actorgraph.savers.foreign.versions import number_of


def checkpoint_body(stored: SourceCheckpoint, decoder: Decoder) -> dict[str, Any]:
    """Decode a checkpoint's dict with its values.

    Returns: a dict without values if it can't be decoded; the decoder notes why.
    Raises:
        ValueError: it is not a checkpoint.
        Exception: any other, if parts of it have wrong types.
    """
    where = checkpoint_label(stored)
    if isinstance(stored.body, tuple):
        noted = len(decoder.unknown)
        found = decoder.read(stored.body[0], stored.body[1], where)
        return dict(_NOTHING) if len(decoder.unknown) > noted else _checked(found)
    inline = stored.body.get("channel_values") or {}
    blobs = {
        c: decoder.read(form, data, f"{where}: {c!r}") for c, (form, data) in stored.blobs.items()
    }
    return _checked({**stored.body, "channel_values": {**inline, **blobs}})


_NOTHING: Mapping[str, Any] = {
    "v": 4,
    "channel_values": {},
    "channel_versions": {},
    "versions_seen": {},
}


def _checked(body: Any) -> dict[str, Any]:
    """Check that a checkpoint has the parts that are read later.

    Raises: ValueError: a part is missing, or a version is not a number.
    """
    parts = [part for part in _NOTHING if not isinstance(body, dict) or part not in body]
    if parts:
        msg = f"it has no {', '.join(parts)}"
        raise ValueError(msg)
    found = cast("dict[str, Any]", body)
    for versions in (found["channel_versions"], *found["versions_seen"].values()):
        for version in versions.values():
            number_of(version)
    return found


def checkpoint_label(stored: SourceCheckpoint) -> str:
    """Name a checkpoint in notes and problems."""
    place = f" of {stored.namespace!r}" if stored.namespace else ""
    return f"checkpoint {stored.id}{place}"
