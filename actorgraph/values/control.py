"""RunControl: how somebody outside asks a run to stop where it can go on later."""

from actorgraph.errors.texts import storable


class RunControl:
    """Asks one run, and the runs inside of it, to stop before their next superstep.

    Make one per run: once a drain is requested it stays requested. Safe to use from any thread.
    """

    __slots__ = ("_reason",)

    def __init__(self) -> None:
        self._reason: str | None = None

    def request_drain(self, reason: str = "shutdown") -> None:
        """Let the run finish its superstep, store it, and leave with `GraphDrained(reason)`.

        A run that has nothing left to do then ends as usual.
        """
        self._reason = storable(reason)

    @property
    def drain_requested(self) -> bool:
        """Whether somebody has asked."""
        return self._reason is not None

    @property
    def drain_reason(self) -> str | None:
        """Why; None if nobody has asked."""
        return self._reason
