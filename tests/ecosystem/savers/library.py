"""The graph library of a program: LangGraph or the layer by `langgraph`, or actorgraph itself.

With ECOSYSTEM_BESIDE a program's graphs are actorgraph's, and its saver has LangGraph's base class.
"""

import os
from importlib import import_module
from typing import Any

BESIDE = "ECOSYSTEM_BESIDE"
_MODULES = {
    "START": "graph",
    "StateGraph": "graph",
    "Command": "types",
    "Send": "types",
    "interrupt": "types",
    "entrypoint": "func",
    "task": "func",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(name)
    beside = os.environ.get(BESIDE)
    module = import_module("actorgraph" if beside else f"langgraph.{_MODULES[name]}")
    return getattr(module, name)
