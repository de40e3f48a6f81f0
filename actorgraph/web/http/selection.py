"""The page that a search answers with: selected fields, extracted values, the next page's offset.

The functions are those of LangGraph's server: `select`, `extract`, and the headers
`X-Pagination-Total` and `X-Pagination-Next`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from starlette.responses import Response

from actorgraph.internals import beside, is_large
from actorgraph.web.http.jsonable import encode_plain, to_plain
from actorgraph.web.http.problems import Unprocessable

PATHS_MAX = 10
"""Paths of `extract` in one request."""
_PATH = re.compile(r"[^.\[\]]+(?:\.[^.\[\]]+|\[-?[0-9]{1,9}\])*")
_STEP = re.compile(r"\[(-?[0-9]+)\]|([^.\[\]]+)")

PathSteps = tuple[str | int, ...]


async def page_response(
    found: Sequence[Any],
    *,
    limit: int,
    offset: int,
    select: Iterable[str] | None = None,
    extract: Mapping[str, str] | None = None,
) -> Response:
    """Answer a search with its page.

    Args:
        found: the items from `offset` on, at least one more than `limit` if there is another page.
        select: fields to answer with; None for all.
        extract: alias -> path; their values are in the field `extracted` of each item.
    Raises:
        Unprocessable: a path is invalid, or there are too many.
    """
    paths = extract_paths(extract or {})
    page = found[:limit]

    def content() -> bytes:
        plain = (cast("dict[str, Any]", to_plain(item)) for item in page)
        return encode_plain([_shown(item, select, paths) for item in plain])

    body = await beside(content) if is_large(page) else content()
    response = Response(body, media_type="application/json")
    more = len(found) > limit
    total = offset + len(page) + more
    response.headers["X-Pagination-Total"] = str(total)
    if more:
        response.headers["X-Pagination-Next"] = str(offset + limit)
    return response


def _shown(
    item: dict[str, Any], select: Iterable[str] | None, paths: Mapping[str, PathSteps]
) -> dict[str, Any]:
    shown = item if select is None else {name: item[name] for name in select if name in item}
    if paths:
        shown["extracted"] = {alias: value_at(item, path) for alias, path in paths.items()}
    return shown


def extract_paths(extract: Mapping[str, str]) -> dict[str, PathSteps]:
    """Parse the paths of `extract`, such as `values.messages[-1].content`.

    Raises:
        Unprocessable: a path is invalid, or there are too many.
    """
    if len(extract) > PATHS_MAX:
        raise Unprocessable(f"extract has {len(extract)} paths; at most {PATHS_MAX} are allowed")
    return {alias: _steps(path) for alias, path in extract.items()}


def _steps(path: str) -> PathSteps:
    if _PATH.fullmatch(path) is None:
        raise Unprocessable(
            f"the path {path!r} of extract is invalid; write one like values.messages[-1].content"
        )
    found = _STEP.findall(path)
    return tuple([int(index) if index else name for index, name in found])


def value_at(item: Any, path: PathSteps) -> Any:
    """Return the value at a path of plain JSON data; None if it is missing."""
    for step in path:
        if isinstance(step, int):
            if not isinstance(item, list) or not -len(cast("list[Any]", item)) <= step < len(
                cast("list[Any]", item)
            ):
                return None
            item = cast("list[Any]", item)[step]
        elif isinstance(item, dict) and step in item:
            item = cast("dict[str, Any]", item)[step]
        else:
            return None
    return item
