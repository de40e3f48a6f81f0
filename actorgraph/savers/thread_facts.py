"""Facts about threads, by which an index finds them: functions over data, the same for savers."""

import json
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, cast, get_args

import msgspec

from actorgraph.values.thread_rows import ThreadFact, ThreadStatus

TEXT_MAX = 200
"""Characters of a value up to which a fact has its text; of a longer one it has a digest."""

RARE = 4000
"""If fewer threads than this have all wanted facts, they are looked up and sorted. Else threads are
tested in the order of the search, where a page is soon full."""


_STATUSES = get_args(ThreadStatus)


class NotJsonError(Exception):
    """A value that equals no JSON value."""


def facts_of(kind: str, data: Any) -> tuple[ThreadFact, ...]:
    """Return a fact for each key of a mapping whose value can equal a JSON value.

    Args:
        kind: "m" for metadata, "v" for values.
    """
    if not isinstance(data, Mapping):
        return ()
    facts: list[ThreadFact] = []
    for key, value in cast("Mapping[Any, Any]", data).items():
        if not isinstance(key, str):
            continue
        try:
            text = fact_text(value)
        except (NotJsonError, RecursionError, ValueError):  # or an integer with too many digits
            continue
        facts.append(ThreadFact(f"{kind}.{key}", text))
    return tuple(facts)


def status_fact(status: str) -> ThreadFact:
    """Return the fact that a thread has a status; "error" for one that no saver writes."""
    return ThreadFact("s.status", status if status in _STATUSES else "error")


PHASE = "s.phase"
"""The name of the fact that a thread has a phase."""


def phase_fact(phase: str) -> ThreadFact:
    """Return the fact that a thread has a phase; of a thread without a state it is "ended"."""
    return ThreadFact(PHASE, phase or "ended")


def fact_text(value: Any) -> str:
    """Return text that is the same for values that are equal as JSON, and for no others.

    The keys of objects are sorted, and integral numbers have no fraction: 1.0 equals 1, and true
    doesn't. A long text is replaced by its digest.

    Raises:
        NotJsonError: the value is not of JSON's types.
        ValueError: an integer has more digits than Python converts to text.
    """
    text = json.dumps(_canonical(value), separators=(",", ":"), sort_keys=True)
    if len(text) <= TEXT_MAX:
        return text
    return "#" + blake2b(text.encode(), digest_size=16).hexdigest()


def _canonical(value: Any) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)  # of an enum: the text that it equals
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, list | tuple):
        return [_canonical(each) for each in cast("list[Any]", value)]
    if isinstance(value, Mapping):
        named = cast("Mapping[Any, Any]", value)
        if not all(isinstance(key, str) for key in named):
            raise NotJsonError
        return {key: _canonical(each) for key, each in named.items()}
    raise NotJsonError


def metadata_facts(metadata: str) -> tuple[ThreadFact, ...]:
    """Return the facts of a thread's stored metadata; none of what isn't a JSON object."""
    return facts_of("m", _object(metadata))


def merged_metadata(stored: str, added: str) -> str:
    """Return JSON of stored metadata with other metadata put over it."""
    return msgspec.json.encode({**_object(stored), **_object(added)}).decode()


def _object(text: Any) -> dict[str, Any]:
    try:
        decoded = msgspec.json.decode(text)
    except (msgspec.DecodeError, TypeError, ValueError):  # no saver has written it
        return {}
    return cast("dict[str, Any]", decoded) if isinstance(decoded, dict) else {}
