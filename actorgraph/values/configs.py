"""Several configs made into one: of a graph, of a run above, of a call. The later one wins.

| key            | merged                                                     |
|----------------|------------------------------------------------------------|
| `configurable` | by key                                                     |
| `metadata`     | by key                                                     |
| `tags`         | one list after the other                                   |
| `callbacks`    | the handlers of both, each once                            |
| any other      | the later one that is given, `recursion_limit` too         |
"""

from collections.abc import Mapping
from typing import Any

Config = Mapping[str, Any]


def merged(*configs: Config | None) -> dict[str, Any]:
    """One config of several. None of them is changed; an entry that is None counts as absent."""
    result: dict[str, Any] = {}
    for config in configs:
        for key, value in (config or {}).items():
            if value is not None:
                result[key] = _joined(key, result.get(key), value)
    return result


def below(above: Config, own: Config | None) -> dict[str, Any]:
    """The config of a nested run. Tags that come from above are not added again."""
    tags = (own or {}).get("tags")
    if tags and above.get("tags"):
        own = {**(own or {}), "tags": [tag for tag in tags if tag not in above["tags"]]}
    return merged(above, own)


def _joined(key: str, known: Any, value: Any) -> Any:
    if key in ("configurable", "metadata") and isinstance(value, Mapping):
        return {**(known if isinstance(known, Mapping) else {}), **value}
    if key == "tags" and isinstance(value, (list, tuple)):
        return [*(known or ()), *value]
    if key == "callbacks" and known is not None:
        return _callbacks(known, value)
    return value


def _callbacks(known: Any, value: Any) -> Any:
    """Handlers of both; a list, or a manager, which is copied before it is given more."""
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
