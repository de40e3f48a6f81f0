"""HostedSaver: the class behind every saver that programs open.

It combines a storage backend from `savers/` (the port: open, commit, query, close) with
LangGraph's methods and maintenance, and lets the actors of `runtime/` host it. Use a saver with
`async with`, with `with`, or with neither: see `runtime.hosting` for the loop that then hosts it.

Subclasses: a run hands rows to the port and calls none of LangGraph's methods, so an override of
one would never be called. A saver of such a class is therefore run through those methods, like
savers of LangGraph's interface. Overrides that can't be called that way are refused when the
class is defined.
"""

from actorgraph.errors import GraphBuildError
from actorgraph.errors.replacing import is_own_class, overridden_methods, overrides_sync

RUN_METHODS = ("get_tuple", "list", "put", "put_writes", "get_next_version")
"""The saver methods that LangGraph's runs call; each but the last has an async version."""

_ALONE = (*RUN_METHODS, "get")
"""Methods of which the sync form alone may be overridden; only programs call `get`."""

_TWINS = {"commit": ["commit_now"], "query": ["query_now"], "open": [], "close": []}
"""Port method -> the methods that an `immediate` saver is called by instead."""


def replaced_in_runs(kind: type) -> list[str]:
    """Return the overridden methods that a run over the port would not call."""
    if is_own_class(kind):
        return []
    return overridden_methods(kind, [form for name in RUN_METHODS for form in (name, f"a{name}")])


def check_subclass(kind: type) -> None:
    """Refuse an override that would never be called; make the other overrides effective.

    Raises:
        GraphBuildError: a sync method is overridden whose async version is what is called.
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
            # An immediate saver is called by `commit_now` and `query_now`, not by the override.
            kind.immediate = False
