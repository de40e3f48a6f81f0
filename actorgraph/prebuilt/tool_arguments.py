"""Fill in the arguments that the graph injects."""

from collections.abc import Mapping
from typing import Any, cast

from actorgraph.errors import InvalidUpdateError
from actorgraph.prebuilt.injected import InjectedParameters, ToolRuntime


def fill_injected(
    injected: InjectedParameters,
    call: Mapping[str, Any],
    state: Any,
    runtime: ToolRuntime[Any, Any],
    key: str,
) -> dict[str, Any]:
    """Return the injected arguments of one call.

    Args:
        key: key of the messages; a bare list of messages is injected as a state with this key.
    Raises:
        InvalidUpdateError: the state lacks a key that the tool needs, or there is no store.
    """
    filled: dict[str, Any] = {}
    if injected.state:
        filled |= _from_state(injected, call, state, key)
    if injected.store and runtime.store is None:
        raise InvalidUpdateError(
            f"Cannot inject store into tool {call['name']!r}: the graph has none",
            do="compile your graph with a store: compile(store=...)",
        )
    filled |= dict.fromkeys(injected.store, runtime.store)
    filled |= dict.fromkeys(injected.runtime, runtime)
    return filled | dict.fromkeys(injected.call_id, call["id"])


def _from_state(
    injected: InjectedParameters, call: Mapping[str, Any], state: Any, key: str
) -> dict[str, Any]:
    if isinstance(state, list):
        state = {key: state}
    filled: dict[str, Any] = {}
    for parameter, wanted in injected.state.items():
        if wanted is None:
            filled[parameter] = state
        elif _has(state, wanted):
            filled[parameter] = _get(state, wanted)
        elif parameter not in injected.optional:
            raise InvalidUpdateError(
                f"tool {call['name']!r} needs {wanted!r} of the state, which doesn't have it",
                do="write that key first, give the parameter a default, or correct InjectedState()",
            )
    return filled


def _has(state: Any, key: str) -> bool:
    return key in state if isinstance(state, Mapping) else hasattr(state, key)


def _get(state: Any, key: str) -> Any:
    if isinstance(state, Mapping):
        return cast("Mapping[str, Any]", state)[key]
    return getattr(state, key)
