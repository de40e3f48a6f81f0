"""Closing: what `async with` closes."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Closing(ABC):
    """The base of readers and streams that are left with `aclose`, or by an `async with` block."""

    @abstractmethod
    async def aclose(self) -> None:
        """Leave it."""

    async def __aenter__(self) -> Self:
        """Itself."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """See `aclose`."""
        await self.aclose()
