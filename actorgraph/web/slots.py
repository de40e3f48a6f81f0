"""A bounded count of open streams."""


class StreamSlots:
    """Counts open streams up to a limit.

    Args:
        most: the limit; None for no limit.
    """

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self.taken = 0

    def try_acquire(self) -> bool:
        """Take a slot; returns False if none is free."""
        if self._most is not None and self.taken >= self._most:
            return False
        self.taken += 1
        return True

    def release(self) -> None:
        """Give a slot back."""
        self.taken -= 1
