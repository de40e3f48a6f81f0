"""Savers of LangGraph's interface as checkpointers: each gets one adapter, with one warning.

So does one of ours whose class overrides methods of that interface.
"""

from importlib import import_module
from typing import Any, cast

from actorgraph.api.overriding import replaced_in_runs
from actorgraph.ports import Checkpointer, Saver

_ADAPTER = "_actorgraph_adapter"
_METHODS = ("get_tuple", "list", "put", "put_writes")


def is_foreign(saver: object) -> bool:
    """Whether this has the methods of LangGraph's savers, each in one form at least."""
    return all(hasattr(saver, name) or hasattr(saver, f"a{name}") for name in _METHODS)


def adopted(checkpointer: Checkpointer) -> Saver | bool | None:
    """A checkpointer as the runtime knows it: a saver of LangGraph's interface by its adapter.

    Raises:
        GraphBuildError: the saver's class lacks one of the methods.
    Warns:
        ForeignSaverWarning: once for each class.
    """
    if checkpointer is None or isinstance(checkpointer, bool):
        return checkpointer
    if isinstance(checkpointer, Saver) and not replaced_in_runs(type(checkpointer)):
        return checkpointer
    known: Saver | None = getattr(checkpointer, _ADAPTER, None)
    if known is not None and getattr(known, "saver", None) is checkpointer:
        return known
    module: Any = import_module("actorgraph.api.foreign")  # few programs need it
    made = cast("Saver", module.ForeignSaver(checkpointer))
    # On the saver, so that all graphs over it share one adapter, and both are collected together.
    object.__setattr__(checkpointer, _ADAPTER, made)
    return made
