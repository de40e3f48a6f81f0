"""Slashes inside of a part of a path: `/threads/a%2Fb` is the thread "a/b".

A server decodes the path before routes see it, so that such a slash looks like any other. It is
in `raw_path` still: there it becomes a character that no id has, for as long as routes are found.
"""

from urllib.parse import unquote

from starlette.types import Scope

SLASH = "\x00"
SLASHES = "actorgraph.slashes"
"""Of a scope: its path has `SLASH` where a part of it has a slash."""


def with_slashes(scope: Scope) -> Scope:
    """The scope with a path in which only what separates its parts is a slash."""
    raw: bytes = scope.get("raw_path") or b""
    text = raw.decode("latin-1")
    if "%2f" not in text.lower() or "%00" in text or unquote(text) != scope["path"]:
        return scope
    told = text.replace("%2F", "%00").replace("%2f", "%00")
    return {**scope, "path": unquote(told), SLASHES: True}
