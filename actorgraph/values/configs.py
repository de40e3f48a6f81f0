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

from collections.abc import Mapping
from typing import Any

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
    """Merge the configs of a subgraph and of its parent run; the parent's tags are not repeated."""
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
    """Merge callbacks: lists of handlers or managers. A manager is copied, then extended."""
    if value is known:
        return known
    if isinstance(known, (list, tuple)) and isinstance(value, (list, tuple)):
        return [*known, *(h for h in value if h not in known)]
    manager, extra = (value, known) if isinstance(known, (list, tuple)) else (known, value)
    manager = manager.copy()
    for handler in extra if isinstance(extra, (list, tuple)) else extra.handlers:
        if handler not in manager.handlers:
            manager.add_handler(handler, inherit=True)
    return manager
