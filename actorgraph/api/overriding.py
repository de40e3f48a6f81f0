"""Subclasses of our savers: which methods a program has replaced, and what becomes of that.

A run hands its rows to a saver's port and calls none of LangGraph's methods, so one that a
subclass has replaced would never be called. A saver with such a class is therefore run as savers
of others are, by those methods. What can't be called that way is refused when the class is made.
"""

from actorgraph.errors import GraphBuildError
from actorgraph.errors.replacing import is_own_class, overridden_methods, overrides_sync

RUN_METHODS = ("get_tuple", "list", "put", "put_writes", "get_next_version")
"""What LangGraph's runs call of a saver; each but the last has an async twin."""

_ALONE = (*RUN_METHODS, "get")
"""Methods of which one form may be overridden: `get` is called by programs only."""

_TWINS = {"commit": ["commit_now"], "query": ["query_now"], "open": [], "close": []}
"""Methods of the port that are not called where a saver has others that never wait."""


def replaced_in_runs(kind: type) -> list[str]:
    """The methods that runs should call, and would not, in a subclass of our savers."""
    if is_own_class(kind):
        return []
    return overridden_methods(kind, [form for name in RUN_METHODS for form in (name, f"a{name}")])


def check_subclass(kind: type) -> None:
    """Refuse a replaced method that would not be called; make the others count.

    Raises:
        GraphBuildError: it has an async twin, and that is what is called.
    """
    if is_own_class(kind):
        return
    for name in dir(kind):
        if name in _ALONE or name.startswith("_"):
            continue
        if overrides_sync(kind, name):
            raise GraphBuildError(
                f"{kind.__name__} overrides {name}(), which async code and servers never call: "
                f"they call a{name}()",
                do=f"override a{name}() instead: {name}() calls it",
            )
    for name, at_once in _TWINS.items():
        if overridden_methods(kind, [name]) and not overridden_methods(
            kind, [*at_once, "immediate"]
        ):
            kind.immediate = False  # else `at_once` is called instead
