"""NodeInterrupt: the pause of programs that were written before `interrupt()`."""

from typing import Any

from actorgraph.errors import GraphInterrupt
from actorgraph.values.commands import Interrupt


class NodeInterrupt(GraphInterrupt):
    """Raised by a node to pause with a question; prefer `interrupt()`.

    No answer reaches the node: when the run goes on the node is called again, and pauses again
    unless its input has changed, e.g. by `update_state`.

    Args:
        value: the question; anything that can be stored.
        id: used if it is 32 hex digits; else the question gets an id of its own.
    """

    def __init__(self, value: Any, id: str | None = None) -> None:
        super().__init__((Interrupt(value, id or ""),))
