"""Accept savers of LangGraph's interface as checkpointers, through one adapter each.

A saver of actorgraph whose subclass overrides methods of that interface is adapted too: a run
hands rows to the port, `commit` and `query`, and would never call those methods. A saver that has
the port's methods alone gets those of programs by a wrapper.
"""

from importlib import import_module
from typing import Any, cast

from actorgraph.api.savers.hosted import replaced_in_runs
from actorgraph.ports import Checkpointer, Saver

_ADAPTER = "_actorgraph_adapter"
_METHODS = ("get_tuple", "list", "put", "put_writes")


def is_foreign(saver: object) -> bool:
    """Whether an object has the methods of LangGraph's savers, each sync or async."""
    return all(hasattr(saver, name) or hasattr(saver, f"a{name}") for name in _METHODS)


def adapt_checkpointer(checkpointer: Checkpointer) -> Saver | bool | None:
    """Return a checkpointer that runtime and programs can use: itself, its adapter or wrapper.

    Raises:
        GraphBuildError: the saver's class lacks a method of LangGraph's interface.
    Warns:
        ForeignSaverWarning: once for each class.
    """
    if checkpointer is None or isinstance(checkpointer, bool):
        return checkpointer
    is_port = isinstance(checkpointer, Saver) and not replaced_in_runs(type(checkpointer))
    if is_port and hasattr(checkpointer, "aget_tuple"):
        return cast("Saver", checkpointer)
    known: Saver | None = getattr(checkpointer, _ADAPTER, None)
    if known is not None and getattr(known, "saver", None) is checkpointer:
        return known
    # Imported on use: few programs need the adapter and what it brings.
    if is_port:
        port: Any = import_module("actorgraph.api.savers.hosted_port")
        made = cast("Saver", port.HostedPort(checkpointer))
    else:
        module: Any = import_module("actorgraph.api.savers.foreign")
        made = cast("Saver", module.ForeignSaver(checkpointer))
    # Kept on the saver: all graphs over it share one adapter, and both are freed together.
    object.__setattr__(checkpointer, _ADAPTER, made)
    return made
