"""Configs as packages read and merge them.

LangGraph keeps functions and the Runtime of a task in its config's `configurable`. Here they are
in the task's scope; `get_config()` of the layer puts those in that published packages read.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

from actorgraph.api.config import checked
from actorgraph.compat.parts.config_keys import (
    CONFIG_KEY_READ,
    CONFIG_KEY_READ_STATE,
    CONFIG_KEY_RUNTIME,
    CONFIG_KEY_SEND,
)
from actorgraph.errors import InvalidUpdateError
from actorgraph.runtime.task.functions import injected, runtime_of
from actorgraph.runtime.task.scope import CURRENT, TaskScope, current
from actorgraph.superstep.results import fold_writes
from actorgraph.superstep.tasks import state_for
from actorgraph.values.configs import merge_configs
from actorgraph.values.constants import PUSH

RECURSION_LIMIT = 10007


def get_config() -> dict[str, Any]:
    """Get the config of the running task, with the functions that packages take from it.

    Raises:
        OutsideRunError: not called in a node.
    """
    return _with_functions(current("get_config()"))


def ensure_config(*configs: Mapping[str, Any] | None) -> dict[str, Any]:
    """Merge configs over that of the running task, if there is one; every entry is there."""
    merged: Any = {
        "tags": [],
        "metadata": {},
        "callbacks": None,
        "recursion_limit": RECURSION_LIMIT,
        "configurable": {},
    }
    scope = CURRENT.get(None)
    if scope is not None:
        merged |= _with_functions(scope)
    for config in configs:
        merged = merge_configs(merged, checked(config)) if config else merged
    return dict(merged)


def patch_configurable(config: Mapping[str, Any] | None, patch: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of a config with other entries in its `configurable`."""
    given = config or {}
    return {**given, "configurable": {**(given.get("configurable") or {}), **patch}}


def filled_in(names: Sequence[str], config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a function's injected parameters, as a node's.

    Args:
        names: of the parameters; outside of a node only `config` has a value.
    """
    scope = CURRENT.get(None)
    given = {"config": config} if "config" in names else {}
    if scope is None:
        return given
    return {**injected(tuple(name for name in names if name != "config"), scope), **given}


def _with_functions(scope: TaskScope) -> dict[str, Any]:
    functions = {
        CONFIG_KEY_READ: partial(_read, scope),
        CONFIG_KEY_READ_STATE: _reading_state(scope),
        CONFIG_KEY_SEND: partial(_send, scope),
        CONFIG_KEY_RUNTIME: runtime_of(scope),
    }
    return patch_configurable(scope.config, functions)


def _reading_state(scope: TaskScope) -> Callable[[], Any] | None:
    """Return a function that makes a Send's task the state of its node; None for other tasks."""
    state, task = scope.run_context.state, scope.task
    sent = task.path[0] == PUSH and task.name in state.plan.nodes
    return partial(state_for, state, task) if sent else None


def _read(scope: TaskScope, select: str | Sequence[str], fresh: bool = False) -> Any:
    """Return values of the run's state: one for a name, a dict for several.

    Args:
        fresh: whether the task's own writes count.
    """
    names = [select] if isinstance(select, str) else select
    values = dict(scope.run_context.values())
    if fresh and scope.pushed:
        plan = scope.run_context.state.plan
        fold_writes(plan, values, scope.pushed, plan.state_keys)
    found = {name: values[name] for name in names if name in values}
    return found.get(names[0]) if isinstance(select, str) else found


def _send(scope: TaskScope, writes: Sequence[tuple[str, Any]]) -> None:
    """Add writes to those of the task.

    Raises:
        InvalidUpdateError: the state has no such key.
    """
    plan = scope.run_context.state.plan
    for key, value in writes:
        if key not in plan.state_keys:
            raise InvalidUpdateError(
                f"node {scope.task.name!r} writes to {key!r}, which the state doesn't have",
                do="declare the key in the state's schema",
            )
        (scope.whole or scope).pushed.append(cast("Any", (key, value)))
