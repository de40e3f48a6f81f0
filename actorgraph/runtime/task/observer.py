"""CallObserver: what reports the calls of one task to LangChain's callbacks."""

from collections.abc import Coroutine, Mapping
from typing import Any, Protocol, TypeVar

from actorgraph.plan.plan import BranchPlan, NodePlan

T = TypeVar("T")


class CallObserver(Protocol):
    """Reports one attempt of a task; see `NodeCallbacks`.

    Attributes:
        entered: whether `around` was called.
        returned: what the node has returned.
    """

    entered: bool
    returned: Any

    async def around(self, node: NodePlan, given: Any, call: Coroutine[Any, Any, T]) -> T:
        """Await a call in the task's own context, and report its beginning and its end.

        Args:
            given: the node's input.
            call: calls the node and its conditional edges.
        """
        ...

    def observed(self, branch: BranchPlan, place: int) -> BranchPlan:
        """Return a conditional edge of the node whose calls are reported too.

        Args:
            place: its number, from 0.
        """
        ...

    def offer(self, message: Any, metadata: Mapping[str, Any]) -> None:
        """Show LangChain's event streams a message, or a piece of one, that the node sends."""
        ...
