"""Write docs/reference/names.md: the public names, and the module of each.

The lists come from the `__all__` of each module, the sentences from their docstrings.
"""

import inspect
from importlib import import_module

import actorgraph
from tests.support.source_files import ROOT

PAGE = ROOT / "docs" / "reference" / "names.md"

HOMES = (
    *("types", "graph", "functional", "streams", "checkpoints", "systems", "errors"),
    *("channels", "messages", "codec", "caches", "stores", "sessions", "prebuilt", "web", "studio"),
    *("testing", "testing.conformance", "migrate", "compat", "dispatch"),
)
"""The modules that programs import from, besides the root."""

OLDER = {
    "actorgraph.api.system_metrics": "actorgraph.systems",
}
"""Module that only keeps an older import path -> the module that replaces it."""

HEAD = """\
# Public names

`make promises` writes this page from the `__all__` of each module: do not edit it. Names and
modules that are not here are internal and may change; authors of savers find theirs in
[custom savers](../own-savers.md). [LangGraph, feature by feature](langgraph.md#where-each-name-is)
lists LangGraph's names.
"""

ROOT_NAMES = """\
## `actorgraph`

The {count} names of a first program. `import actorgraph` loads no database driver and no extra.

{names}
"""

ALSO = """\
## Also found by `from actorgraph import`

These names are not in `actorgraph.__all__`, but `from actorgraph import AuditLog` works, also for
type checkers. Each is imported at its first use. New programs import them from their module:
"""

OLD_PATHS = """\
## Older paths

Modules that keep an import of older programs working:
"""


def earlier() -> list[str]:
    """The names that the root exported before its `__all__` was shortened."""
    return (ROOT / "tests" / "support" / "root_names.txt").read_text("utf-8").split()


def exported(home: str) -> list[str]:
    """The `__all__` of a module below `actorgraph`."""
    return import_module(f"actorgraph.{home}").__all__


def home_of(name: str) -> str | None:
    """The first module that has a name of the root, the same object."""
    for home in HOMES:
        if name in exported(home):
            assert getattr(import_module(f"actorgraph.{home}"), name) is getattr(actorgraph, name)
            return home
    return None


def current() -> str:
    """The page as it should be."""
    names = actorgraph.__all__
    lines = [HEAD, ROOT_NAMES.format(count=len(names), names=_listed(names))]
    lines += ["## Modules", "", "| module | what | names |", "|---|---|---|"]
    for home in HOMES:
        summary = inspect.cleandoc(import_module(f"actorgraph.{home}").__doc__ or "")
        first = summary.splitlines()[0]
        lines.append(f"| `actorgraph.{home}` | {first} | {_listed(exported(home))} |")
    also: dict[str, list[str]] = {home: [] for home in HOMES}
    for name in earlier():
        home = home_of(name)
        if home and name not in names:
            also[home].append(name)
    lines += ["", ALSO, "| module | names |", "|---|---|"]
    lines += [
        f"| `actorgraph.{home}` | {_listed(found)} |" for home, found in also.items() if found
    ]
    lines += ["", OLD_PATHS, "| older | now |", "|---|---|"]
    lines += [f"| `{old}` | `{new}` |" for old, new in OLDER.items()]
    return "\n".join([*lines, ""])


def _listed(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    PAGE.write_text(current(), "utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")
