"""Updates from outside of a graph: keys by their names, and the first one of a thread.

Callers give a key by its alias, as its class's constructor takes it, or by its name; everything
inside of the graph uses the name. The first input of a thread makes its state, as a constructor
makes an object: what it gives takes the place of a default, what it leaves out begins with it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from actorgraph.channels import EMPTY
from actorgraph.errors import InvalidUpdateError, did_you_mean
from actorgraph.plan.plan import NodePlan, Plan
from actorgraph.plan.state_objects import all_of, by_name, written_by
from actorgraph.superstep.run_state import RunState
from actorgraph.values.commands import Command
from actorgraph.values.run import Write

FIRST_STEP = -1
"""The step of a thread whose first input has not been moved into its state yet."""


def is_fresh(state: RunState) -> bool:
    """Whether nothing was ever written to the thread: the next update makes its state."""
    return not state.versions


def by_names(plan: Plan, input_value: Any, *, nested: bool = False) -> Any:
    """Return an update from outside with names of keys in place of their aliases.

    Args:
        input_value: an update in any form, or a Command with one; only a dict has aliases.
        nested: whether it is the state of a parent graph, in which an alias that is also the name
            of a key is the name.
    """
    if plan.outside is None:
        return input_value
    if isinstance(input_value, Command):
        command = cast("Command[Any]", input_value)
        return replace(command, update=by_names(plan, command.update, nested=nested))
    if not isinstance(input_value, Mapping):
        return input_value
    return by_name(plan.outside, cast("Mapping[Any, Any]", input_value), outside=not nested)


def first_update(state: RunState, input_value: Any) -> Any:
    """Return the first input of a thread as an update by names.

    An object gives all of its fields, also those that were not set; as the state of a parent only
    those that it would write. A field that equals the default with which its key begins is left
    out: the default is there already.
    """
    plan, nested = state.plan, state.nested is not None
    input_value = by_names(plan, input_value, nested=nested)
    if isinstance(input_value, (dict, list, tuple)) or plan.start.bare:
        return input_value
    fields = written_by(input_value) if nested else all_of(input_value)
    if fields is None:
        return input_value
    begins = plan.defaults
    return {k: v for k, v in fields if not (k in begins and begins[k].is_same(v))}


def input_update(state: RunState, input_value: Any) -> Any:
    """Return a run's input as an update by names; on a new thread it takes its defaults' place."""
    plan = state.plan
    update = input_value
    if is_fresh(state):
        if plan.outside is not None or type(input_value) is not dict:
            update = first_update(state, input_value)
        if plan.defaults:
            clear_defaults(state, update)
    elif plan.outside is not None:
        update = by_names(plan, input_value, nested=state.nested is not None)
    return update


def known_writes(state: RunState, writes: Sequence[Write]) -> list[Write]:
    """Return the writes of a Command from outside to keys that there are; others are reported.

    Raises:
        InvalidUpdateError: a key is unknown, and the graph is strict or its class forbids that.
    """
    plan = state.plan
    unknown = [key for key, _ in writes if key not in plan.channels]
    state.dropped = unknown_keys("the input has", unknown, plan.state_keys)
    if state.dropped and (plan.strict or plan.forbids):
        raise InvalidUpdateError(state.dropped[0], do="give only known keys")
    return [write for write in writes if write[0] in plan.channels]


def unknown_keys(does: str, keys: Sequence[Any], channels: Sequence[str]) -> list[str]:
    """Return a sentence for each key that is not a channel; the last of ten counts all others.

    An input may have thousands: a search for what each may be a misspelling of would take long.

    Args:
        does: the beginning of each sentence: who gave the keys.
        channels: the names that there are.
    """
    shown_keys = keys if len(keys) <= UNKNOWN_MAX else keys[: UNKNOWN_MAX - 1]
    problems = [
        f"{does} {key!r}, which is not a channel of this graph ({did_you_mean(str(key), channels)})"
        for key in shown_keys
    ]
    if len(problems) < len(keys):
        rest = len(keys) - len(problems)
        problems.append(f"{does} {rest} more keys that are not channels of this graph")
    return problems


UNKNOWN_MAX = 10
"""Sentences about unknown keys of one update."""


def clear_defaults(state: RunState, update: Any) -> None:
    """Take away the defaults of the keys that a thread's first update gives."""
    for key in keys_in(update):
        if key in state.plan.defaults:
            value = state.plan.channels[key].initial()
            if value is EMPTY:
                state.values.pop(key, None)
            else:
                state.values[key] = value


def keep_defaults(state: RunState, update: Any) -> list[str]:
    """Store the defaults of all other keys with the thread's first checkpoint.

    A factory may return something else the next time, and a program may change its defaults.

    Returns: these keys, which have changed.
    """
    updated = set(keys_in(update))
    free = [k for k in state.plan.defaults if k not in updated and k not in state.versions]
    default_keys = [k for k in free if k in state.values and not state.plan.defaults[k].is_none]
    for key in default_keys:
        state.versions[key] = state.max_version
    if state.has_saver:
        state.dirty.update(default_keys)
        state.whole |= state.plan.deltas.intersection(default_keys)
    return default_keys


def keys_in(update: Any) -> list[Any]:
    """List the keys of an update in any of its forms."""
    if isinstance(update, Mapping):
        return list(cast("Mapping[Any, Any]", update))
    if isinstance(update, (list, tuple)):
        parts = cast("list[Any]", update)
        pairs = [part[0] for part in parts if isinstance(part, tuple) and len(part) == 2]
        return [*pairs, *(key for part in parts if isinstance(part, Mapping) for key in part)]
    return [key for key, _ in written_by(update) or ()]


def update_by_names(state: RunState, node: NodePlan | None, input_value: Any) -> Any:
    """Return an update from outside of a run by names of keys.

    The first one of a thread, if it has no node as its author, makes the state as an input does.

    Args:
        node: its author, or None.
    """
    if is_fresh(state) and (node is None or node is state.plan.start):
        update = first_update(state, input_value)
        clear_defaults(state, update)
        return update
    return by_names(state.plan, input_value, nested=True)


def start_input(state: RunState, input_value: Any) -> Any:
    """Return the input that the hidden node START moves into the state, by names of keys."""
    if state.step == FIRST_STEP:
        return first_update(state, input_value)
    return by_names(state.plan, input_value, nested=state.nested is not None)
