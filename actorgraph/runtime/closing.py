"""Closing: base of objects that `async with` closes."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Closing(ABC):
    """Base of readers and streams that are closed by `aclose` or an `async with` block."""

    @abstractmethod
    async def aclose(self) -> None:
        """Stop reading and release resources."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()
