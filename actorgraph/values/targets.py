"""Where a resume begins: at a thread's newest checkpoint, or at one of the older ones."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ResumeTarget:
    """A place on a thread: `Latest`, or `ResumeTarget.checkpoint(id)`.

    Attributes:
        checkpoint_id: the checkpoint's id as text; None for the newest one.
    """

    checkpoint_id: str | None = None

    @classmethod
    def latest(cls) -> "ResumeTarget":
        """The newest checkpoint."""
        return Latest

    @classmethod
    def checkpoint(cls, checkpoint_id: str) -> "ResumeTarget":
        """The checkpoint of this id: a branch, unless it is the newest."""
        return cls(checkpoint_id)


Latest = ResumeTarget()
"""The thread's newest checkpoint."""
