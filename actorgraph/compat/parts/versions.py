"""The version of LangGraph whose names the layer answers for, and its warnings."""

__version__ = "1.2.24"


class LangGraphDeprecationWarning(DeprecationWarning):
    """A name or argument is deprecated.

    Args:
        message: names the deprecated thing.
        since: the version (major, minor) of LangGraph that deprecated it.
        expected_removal: the version that removes it; default the next major one.
    """

    def __init__(
        self,
        message: str,
        *args: object,
        since: tuple[int, int],
        expected_removal: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(message, *args)
        self.message = message.rstrip(".")
        self.since = since
        self.expected_removal = expected_removal or (since[0] + 1, 0)

    def __str__(self) -> str:
        since, removal = ("{}.{}".format(*v) for v in (self.since, self.expected_removal))
        return f"{self.message}. Deprecated in LangGraph V{since} to be removed in V{removal}."


class LangGraphDeprecatedSinceV05(LangGraphDeprecationWarning):
    """Deprecated since 0.5."""

    def __init__(self, message: str, *args: object) -> None:
        super().__init__(message, *args, since=(0, 5), expected_removal=(2, 0))


class LangGraphDeprecatedSinceV10(LangGraphDeprecationWarning):
    """Deprecated since 1.0."""

    def __init__(self, message: str, *args: object) -> None:
        super().__init__(message, *args, since=(1, 0), expected_removal=(2, 0))


class LangGraphDeprecatedSinceV11(LangGraphDeprecationWarning):
    """Deprecated since 1.1."""

    def __init__(self, message: str, *args: object) -> None:
        super().__init__(message, *args, since=(1, 1), expected_removal=(3, 0))
