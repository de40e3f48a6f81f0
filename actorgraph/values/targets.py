"""ResumeTarget: the checkpoint at which a resume begins."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ResumeTarget:
    """A checkpoint to resume at: `Latest`, or `ResumeTarget.checkpoint(id)`.

    Attributes:
        checkpoint_id: the checkpoint's id as text; None for the newest one.
    """

    checkpoint_id: str | None = None

    @classmethod
    def latest(cls) -> "ResumeTarget":
        """Return `Latest`: the thread's newest checkpoint."""
        return Latest

    @classmethod
    def checkpoint(cls, checkpoint_id: str) -> "ResumeTarget":
        """Resume at the checkpoint with this id; it makes a branch unless it is the newest."""
        return cls(checkpoint_id)


Latest = ResumeTarget()
"""The thread's newest checkpoint."""
