"""The tools of a spec, the calls that its nodes make of them, and the messages between both.

A call is `[tool, of]`: `of` names its maker and the moment, so that no two calls are the same.
"""

import inspect
from collections.abc import Callable
from typing import Annotated, Any

TOOLS = ("echo", "peek", "count", "hand", "ask")


def tool_node(library: Any, names: list[str], note: Callable[[str], None], *, plain: bool) -> Any:
    """A ToolNode with these tools, blocking ones or async ones.

    Args:
        note: gets the name of each tool that is called.
    """
    # Imported before a node runs: that takes longer than a failing sibling waits.
    for name in ("AIMessage", "ToolMessage"):
        getattr(library, name)
    made = _plain_tools(library, note)
    chosen = [made[name] for name in names]
    return library.ToolNode(chosen if plain else [_awaited(tool) for tool in chosen])


def _plain_tools(library: Any, note: Callable[[str], None]) -> dict[str, Any]:
    def echo(of: str) -> str:
        """Answer with the argument."""
        note("echo")
        return f"echo {of}"

    def peek(of: str, state: Annotated[Any, library.InjectedState]) -> str:
        """Look at the whole state."""
        note("peek")
        seen = state if isinstance(state, dict) else vars(state)
        return f"peek {of} {seen.get('n')} {len(seen.get('messages', ()))}"

    def count(of: str, n: Annotated[int, library.InjectedState("n")]) -> str:
        """Look at one key of the state."""
        note("count")
        return f"count {of} {n}"

    def hand(of: str, call: Annotated[str, library.InjectedToolCallId]) -> Any:
        """Write to the state beside the answer."""
        note("hand")
        answer = library.ToolMessage(f"hand {of}", tool_call_id=call, name="hand")
        return library.Command(update={"n": 1, "log": [f"hand {of}"], "messages": [answer]})

    def leave(of: str, call: Annotated[str, library.InjectedToolCallId]) -> Any:
        """Hand over to the graph above."""
        note("leave")
        update = {"n": 1, "log": [f"leave {of} {call}"]}
        return library.Command(graph=library.Command.PARENT, update=update)

    def ask(of: str) -> str:
        """Ask a person."""
        note("ask")
        return f"ask {of} {library.interrupt(f'tools?{of}')}"

    return {tool.__name__: tool for tool in (echo, peek, count, hand, ask, leave)}


def _awaited(tool: Any) -> Any:
    """The tool as an async function with the same signature."""

    async def call(**given: Any) -> Any:
        return tool(**given)

    call.__name__, call.__doc__ = tool.__name__, tool.__doc__
    call.__annotations__ = tool.__annotations__
    call.__signature__ = inspect.signature(tool)
    return call


def asked_for(library: Any, made: dict[str, Any]) -> Any:
    """The message of a model that makes calls."""
    return library.AIMessage("", id=made["ai"], tool_calls=[tool_call(c) for c in made["calls"]])


def to_tools(call: list[str], context: dict[str, Any] | None) -> Any:
    """The argument of a Send to the ToolNode: the call, with a state for its tool or without."""
    if context is None:
        return [tool_call(call)]
    kind = "tool_call_with_context"
    return {"__type": kind, "tool_call": tool_call(call), "state": context}


def tool_call(call: list[str]) -> dict[str, Any]:
    """A call as messages and Sends have it."""
    name, of = call
    return {"name": name, "args": {"of": of}, "id": f"{name} {of}", "type": "tool_call"}


def shown_message(message: Any) -> list[Any]:
    """A message without the ids that are made at random."""
    shown = [message.type, message.content, getattr(message, "name", None)]
    called = [[c["name"], c["args"], c["id"]] for c in getattr(message, "tool_calls", ())]
    return [*shown, called, getattr(message, "tool_call_id", None)]
