"""Filling in the arguments that a tool gets from the graph."""

from collections.abc import Mapping
from typing import Any, cast

from actorgraph.errors import InvalidUpdateError
from actorgraph.prebuilt.injected import Needs, ToolRuntime


def fill(
    needs: Needs, call: Mapping[str, Any], state: Any, runtime: ToolRuntime[Any, Any], key: str
) -> dict[str, Any]:
    """The hidden arguments of one call.

    Args:
        key: where a state has its messages; a bare list of messages is such a state.
    Raises:
        InvalidUpdateError: the state lacks a key that the tool wants, or there is no store.
    """
    filled: dict[str, Any] = {}
    if needs.state:
        filled |= _from_state(needs, call, state, key)
    if needs.store and runtime.store is None:
        raise InvalidUpdateError(
            f"Cannot inject store into tool {call['name']!r}: the graph has none",
            do="compile your graph with a store: compile(store=...)",
        )
    filled |= dict.fromkeys(needs.store, runtime.store)
    filled |= dict.fromkeys(needs.runtime, runtime)
    return filled | dict.fromkeys(needs.call_id, call["id"])


def _from_state(needs: Needs, call: Mapping[str, Any], state: Any, key: str) -> dict[str, Any]:
    if isinstance(state, list):
        state = {key: state}
    filled: dict[str, Any] = {}
    for parameter, wanted in needs.state.items():
        if wanted is None:
            filled[parameter] = state
        elif _has(state, wanted):
            filled[parameter] = _get(state, wanted)
        elif parameter not in needs.optional:
            raise InvalidUpdateError(
                f"tool {call['name']!r} wants {wanted!r} of the state, which it doesn't have",
                do="write that key first, give the parameter a default, or correct InjectedState()",
            )
    return filled


def _has(state: Any, key: str) -> bool:
    return key in state if isinstance(state, Mapping) else hasattr(state, key)


def _get(state: Any, key: str) -> Any:
    if isinstance(state, Mapping):
        return cast("Mapping[str, Any]", state)[key]
    return getattr(state, key)
