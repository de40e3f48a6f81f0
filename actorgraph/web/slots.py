"""How many streams are open: taken at the beginning of one, given back at its end."""


class Slots:
    """A number of places.

    Args:
        most: how many; None for any number.
    """

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self.taken = 0

    def take(self) -> bool:
        """Whether there was a place; it is taken now."""
        if self._most is not None and self.taken >= self._most:
            return False
        self.taken += 1
        return True

    def give(self) -> None:
        """Give a place back."""
        self.taken -= 1
