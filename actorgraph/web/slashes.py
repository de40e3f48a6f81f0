"""Endpoints: how a request is decoded, authorized and answered.

A request passes these steps, in this order: authentication, rate limit, body (size, JSON, shape,
depth), the thread that its path names, authorization, the endpoint's own handler.
"""

from urllib.parse import unquote

from starlette.types import Scope

SLASH = "\x00"
SLASHES = "actorgraph.slashes"
"""The key of a scope whose path has `SLASH` in place of the slashes inside path parameters."""


def with_slashes(scope: Scope) -> Scope:
    """Return the scope with a path in which only separators are slashes.

    `/threads/a%2Fb` names the thread "a/b", but servers decode the path before it is routed. In
    `raw_path` such a slash can still be told from a separator: here it becomes a character that no
    id has, until the route is found.
    """
    raw: bytes = scope.get("raw_path") or b""
    text = raw.decode("latin-1")
    if "%2f" not in text.lower() or "%00" in text or unquote(text) != scope["path"]:
        return scope
    told = text.replace("%2F", "%00").replace("%2f", "%00")
    return {**scope, "path": unquote(told), SLASHES: True}
