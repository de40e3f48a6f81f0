"""Search by text: which texts of a value are embedded, how, and which vectors are the nearest.

Paths       of texts in a value: `title`, `a.b[*].c`, `tags[-1]`, `{name,about.city}`, `$`
Embedding   by a function or an `Embeddings` object of the program, sync or async
Ranking     by the cosine with every vector, without an index: below some 50,000 vectors numpy is
            as fast as one; without numpy it is plain Python
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

_CLOSING = {"[": "]", "{": "}"}


def tokenize_path(path: str) -> list[str]:
    """Split a path into steps: names, `[0]`, `[*]`, `{a,b}`, `*`."""
    steps, name, at = list[str](), "", 0
    while at < len(path):
        char = path[at]
        if char in ".[{":
            if name:
                steps.append(name)
            name = ""
        elif char not in _CLOSING:
            name += char
        if char in _CLOSING:
            end = _end(path, at)
            steps.append(path[at:end])
            at = end
        else:
            at += 1
    return [*steps, name] if name else steps


def get_text_at_path(obj: Any, path: str | list[str]) -> list[str]:
    """Return the texts at a path.

    Args:
        obj: a value.
        path: a path, or its steps from `tokenize_path`. `$` and "" are the whole value.
    Returns: text as it is, numbers and bools as Python writes them, lists and dicts as JSON with
        sorted keys; nothing for None and for missing fields.
    """
    if isinstance(obj, Mapping):
        obj = dict(obj)
    if not path or path == "$":
        return [_json(obj)]
    steps = tokenize_path(path) if isinstance(path, str) else path
    return [text for found in _walk(obj, steps) for text in _text(found)]


def _walk(obj: Any, steps: list[str]) -> Iterator[Any]:
    if not steps:
        yield obj
        return
    for found in _step(obj, steps[0]):
        yield from _walk(found, steps[1:])


def _step(obj: Any, step: str) -> Iterator[Any]:
    """Yield the values to which one step leads."""
    if step.startswith("[") and step.endswith("]"):
        if isinstance(obj, list):
            yield from _elements(obj, step[1:-1])
    elif step.startswith("{") and step.endswith("}"):
        for field in step[1:-1].split(","):
            if names := tokenize_path(field.strip()):
                yield from _below(obj, names)
    elif step == "*":
        yield from obj.values() if isinstance(obj, dict) else obj if isinstance(obj, list) else ()
    elif isinstance(obj, dict) and step in obj:
        yield obj[step]


def _elements(elements: list[Any], index: str) -> Iterator[Any]:
    if index == "*":
        yield from elements
        return
    try:
        yield elements[int(index)]
    except (ValueError, IndexError):
        return


def _below(obj: Any, names: list[str]) -> Iterator[Any]:
    for name in names:
        if not isinstance(obj, dict) or name not in obj:
            return
        obj = obj[name]
    yield obj


def _text(found: Any) -> Iterator[str]:
    if isinstance(found, str | int | float):
        yield str(found)
    elif isinstance(found, list | dict):
        yield _json(found)


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def _end(path: str, start: int) -> int:
    """Return the index behind the bracket that closes the one at `start`, or the path's end."""
    opening, closing, depth = path[start], _CLOSING[path[start]], 0
    for at in range(start, len(path)):
        depth += (path[at] == opening) - (path[at] == closing)
        if depth == 0:
            return at + 1
    return len(path)
