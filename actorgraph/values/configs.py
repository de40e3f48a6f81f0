"""Configs of calls: how several are merged, and which of their metadata is stored.

Merging configs of a graph, of a parent run and of a call: the later one wins.

| key            | merged                                                     |
|----------------|------------------------------------------------------------|
| `configurable` | by key                                                     |
| `metadata`     | by key                                                     |
| `tags`         | one list after the other                                   |
| `callbacks`    | the handlers of both, each once                            |
| any other      | the later one that is given, `recursion_limit` too         |

Stored with a run's checkpoints is `config["metadata"]` and nothing else: an address, a user's id or
a key in `configurable` is not. Reserved names and names that begin with `__` or `langgraph_` are
left out; text under a name that suggests a secret is replaced by "[redacted]".
"""

import re
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from actorgraph.errors import InvalidConfigError
from actorgraph.errors.texts import is_encodable

Config = Mapping[str, Any]


def merge_configs(*configs: Config | None) -> dict[str, Any]:
    """Merge configs. None of them is changed; an entry that is None counts as absent."""
    result: dict[str, Any] = {}
    for config in configs:
        for key, value in (config or {}).items():
            if value is not None:
                result[key] = _joined(key, result.get(key), value)
    return result


def nested_config(above: Config, own: Config | None) -> dict[str, Any]:
    """Merge the configs of a subgraph and of its parent run; the parent's tags are not repeated.

    The parent's `run_id` and `run_name` are left out: they are of that run alone.
    """
    above = {key: value for key, value in above.items() if key not in ("run_id", "run_name")}
    tags = (own or {}).get("tags")
    if tags and above.get("tags"):
        own = {**(own or {}), "tags": [tag for tag in tags if tag not in above["tags"]]}
    return merge_configs(above, own)


def _joined(key: str, known: Any, value: Any) -> Any:
    if key in ("configurable", "metadata") and isinstance(value, Mapping):
        return {**(known if isinstance(known, Mapping) else {}), **value}
    if key == "tags" and isinstance(value, (list, tuple)):
        return [*(known or ()), *value]
    if key == "callbacks" and known is not None:
        return _callbacks(known, value)
    return value


def _callbacks(known: Any, value: Any) -> Any:
    """Merge callbacks: lists of handlers or managers. A manager is copied, then extended.

    Of two managers that is the later one: what it reports is below the Runnable that it is of.
    """
    if value is known:
        return known
    if isinstance(known, (list, tuple)) and isinstance(value, (list, tuple)):
        return [*known, *(h for h in value if h not in known)]
    manager: Any
    manager, extra = (known, value) if isinstance(value, (list, tuple)) else (value, known)
    manager = manager.copy()
    for handler in extra if isinstance(extra, (list, tuple)) else extra.handlers:
        if handler not in manager.handlers:
            manager.add_handler(handler, inherit=True)
    return manager


_DEPTH_MAX = 200
RESERVED = frozenset({"source", "step", "parents", "writes"})
_INTERNAL = ("__", "langgraph_")
REDACTED = "[redacted]"

_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_SECRET = frozenset(
    {
        *("key", "keys", "apikey", "token", "tokens", "secret", "secrets", "credential"),
        *("password", "passwd", "passphrase", "pwd", "auth", "authorization", "cookie"),
        "credentials",
    }
)


LIBRARY_KEY = "ls_integration"
"""The key in metadata under which a library that makes calls names itself."""

_PLACED = (
    "thread_id",
    "checkpoint_id",
    "checkpoint_ns",
    "task_id",
    "run_id",
    "assistant_id",
    "graph_id",
)


def placed_metadata(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of `configurable` that callbacks and streams show as metadata."""
    place = config.get("configurable")
    return {key: place[key] for key in _PLACED if place.get(key)} if place else {}


def stored_metadata(declared: Mapping[str, Any]) -> dict[str, Any]:
    """Make the metadata to store of a call's. The argument is not changed."""
    return {
        name: _shown(name, value)
        for name, value in declared.items()
        if name not in RESERVED and not str(name).startswith(_INTERNAL)
    }


def check_texts(value: Any, what: str) -> None:
    """Refuse a value with lone surrogates in a text: no store takes it.

    Args:
        value: any data; its keys are checked too.
        what: its name in the error.
    Raises:
        InvalidConfigError: a text in it has a lone surrogate.
    """
    try:  # nearly all values are JSON, and good: several times as fast as a look at each text
        _ENCODE(value)
    except Exception:  # noqa: BLE001 - what JSON doesn't have is looked at below
        _look_at_texts(value, what)


_ENCODE = msgspec.json.Encoder().encode


def _look_at_texts(value: Any, what: str) -> None:
    left: list[tuple[Any, int]] = [(value, 0)]
    while left:
        one, depth = left.pop()
        if isinstance(one, str):
            if not is_encodable(one):
                raise InvalidConfigError(
                    f"{what} holds {one[:80]!r}, which has a lone surrogate and can't be stored",
                    do="decode the text with errors='replace' where it comes in",
                )
        elif depth < _DEPTH_MAX and isinstance(one, (list, tuple, Mapping)):
            inner = cast("Any", one)
            left.extend((item, depth + 1) for item in inner)
            if isinstance(one, Mapping):
                left.extend((item, depth + 1) for item in inner.values())


def _shown(name: object, value: Any) -> Any:
    if isinstance(value, Mapping):
        inner = cast("Mapping[Any, Any]", value)
        return {key: _shown(f"{name} {key}", item) for key, item in inner.items()}
    secret = isinstance(value, (str, bytes, list, tuple)) and names_a_secret(str(name))
    return REDACTED if secret else value


def names_a_secret(name: str) -> bool:
    """Whether one of a name's words suggests a secret: "apiKey", "auth_token", "Password"."""
    return any(word.lower() in _SECRET for word in _WORDS.findall(name))
