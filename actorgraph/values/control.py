"""RunControl: a request to stop a run between two supersteps, where it can go on later."""

from actorgraph.errors.texts import storable


class RunControl:
    """Asks one run, and its subgraphs, to stop before their next superstep.

    Make one per run: once a drain is requested it stays requested. Safe to use from any thread.
    """

    __slots__ = ("_reason",)

    def __init__(self) -> None:
        self._reason: str | None = None

    def request_drain(self, reason: str = "shutdown") -> None:
        """Let the run finish its superstep, store it, and raise `GraphDrained(reason)`.

        A run that has nothing left to do then ends as usual.
        """
        self._reason = storable(reason)

    @property
    def drain_requested(self) -> bool:
        """Whether a drain was requested."""
        return self._reason is not None

    @property
    def drain_reason(self) -> str | None:
        """The reason of the request; None without one."""
        return self._reason
