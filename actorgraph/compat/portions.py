"""Other distributions' modules inside LangGraph's namespaces, such as `langgraph.checkpoint.redis`.

A distribution may put modules beside LangGraph's own: `langgraph`, `langgraph.checkpoint`,
`langgraph.store` and `langgraph.cache` are namespace packages. Those modules are found as Python
finds them, by the finders behind the layer's, in folders, zip archives and editable installs; what
they import of LangGraph is answered by the layer. LangGraph's own files stay unread: a process
never has two classes of one name.
"""

import inspect
import sys
from collections.abc import Iterator, MutableSequence
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any, Final, overload

ROOT: Final = "langgraph"

OWN: Final = {
    ROOT: frozenset(
        {
            *("_internal", "cache", "callbacks", "channels", "checkpoint", "config", "constants"),
            *("errors", "func", "graph", "managed", "prebuilt", "pregel", "runtime", "store"),
            *("stream", "types", "typing", "utils", "version", "warnings"),
        }
    ),
    f"{ROOT}.checkpoint": frozenset({"base", "memory", "postgres", "serde", "sqlite"}),
    f"{ROOT}.store": frozenset({"base", "memory", "postgres", "sqlite"}),
    f"{ROOT}.cache": frozenset({"base", "memory", "redis", "sqlite"}),
}
"""Namespace package -> the modules in it that are LangGraph's own, with all that is below them."""


def is_foreign(module: str) -> bool:
    """Whether a name below `langgraph` belongs to another distribution."""
    above, _, name = module.rpartition(".")
    while above:
        if above in OWN:
            return name not in OWN[above]
        above, _, name = above.rpartition(".")
    return False


def find_foreign(module: str, path: Any, target: Any, *, behind: Any) -> ModuleSpec | None:
    """Ask Python's other finders for a module of another distribution; None if they have none.

    Args:
        path: `__path__` of the package above.
        behind: the layer's own finder, which isn't asked.
    """
    folders = None if path is None else [*path]
    for finder in [*sys.meta_path]:
        find = getattr(finder, "find_spec", None)
        spec = None if finder is behind or find is None else find(module, folders, target)
        if spec is not None:
            return spec
    return None


class Portions(MutableSequence[str]):
    """`__path__` of a namespace package: its folders in every entry of `sys.path`, as of now.

    Python's own finder, which is asked for what the layer doesn't answer, finds it empty: the
    folders have LangGraph's files, too.

    Args:
        package: e.g. "langgraph.checkpoint".
    """

    def __init__(self, package: str) -> None:
        self._package = package
        self._added: list[str] = []

    def _now(self) -> list[str]:
        above, _, _ = self._package.rpartition(".")
        found: list[str] = []
        for entry in [*(sys.modules[above].__path__ if above else sys.path)]:
            spec = PathFinder.find_spec(self._package, [entry])
            found += (spec and spec.submodule_search_locations) or ()
        return [*dict.fromkeys([*found, *self._added])]

    def __iter__(self) -> Iterator[str]:
        here = inspect.currentframe()
        asking = here.f_back.f_code if here and here.f_back else None
        if asking and asking.co_name == "_get_spec" and "importlib" in asking.co_filename:
            return iter(())
        return iter(self._now())

    def __len__(self) -> int:
        return len(self._now())

    def __contains__(self, value: object) -> bool:
        return value in self._now()

    def __repr__(self) -> str:
        return f"Portions({self._now()})"

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> list[str]: ...

    def __getitem__(self, index: int | slice) -> str | list[str]:
        return self._now()[index]

    def insert(self, index: int, value: str) -> None:
        """Add a folder, behind those of `sys.path`."""
        self._added.insert(index, value)

    def __setitem__(self, index: Any, value: Any) -> None:
        raise TypeError("append a folder; those of sys.path can't be replaced")

    def __delitem__(self, index: Any) -> None:
        raise TypeError("append a folder; those of sys.path can't be removed")
