"""A row of LangGraph's checkpoints as the dict that LangGraph made it of, or why it is none."""

from collections.abc import Mapping
from typing import Any, cast

from actorgraph.migrate.decode import Decoder
from actorgraph.migrate.sources import Stored
from actorgraph.savers.foreign.versions import number_of


def body_of(stored: Stored, decoder: Decoder) -> dict[str, Any]:
    """A checkpoint's dict, with its values; without any, and a note, if it can't be decoded.

    Raises: ValueError: it is no checkpoint. Others: parts of it have wrong types.
    """
    where = where_of(stored)
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
    """A checkpoint that has the parts which are looked at.

    Raises: ValueError: it has not.
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


def where_of(stored: Stored) -> str:
    """What a note calls a checkpoint."""
    place = f" of {stored.namespace!r}" if stored.namespace else ""
    return f"checkpoint {stored.id}{place}"
