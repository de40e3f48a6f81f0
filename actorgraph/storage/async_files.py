"""Files that asynchronous code reads and writes: aiofiles on asyncio, anyio's files on trio.

Each call is one hop into a worker thread, so that the loop goes on: give it much at once. It goes
to its end even if the caller is cancelled, so no thread writes to a file that its caller has
closed or renamed. Several system calls that belong together are one hop of their own,
and don't come here (docs/decisions/0200-files-of-asynchronous-code.md).
"""

import os
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Literal, Self, TypeVar

import anyio
import anyio.lowlevel

from actorgraph.loops import on_trio, shielded

Path = str | os.PathLike[str]
T = TypeVar("T")


class TextFile:
    """An open file of UTF-8 text; iterated, it gives its lines with their ends."""

    def __init__(self, file: Any) -> None:
        self._file = file

    async def write_lines(self, lines: Iterable[str]) -> None:
        """Write lines, which have their ends; they are made in the worker thread."""
        await _to_end(partial(self._file.writelines, lines))

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        line: str = await _to_end(self._file.readline)
        if not line:
            raise StopAsyncIteration
        return line


@asynccontextmanager
async def text_file(path: Path, mode: Literal["r", "w"]) -> AsyncGenerator[TextFile]:
    """Open a text file; when it is closed, the system has what was written, the disk maybe not.

    Raises:
        OSError: it can't be opened, or what was written is not all in the file.
    """
    async with _opened(path, mode, encoding="utf-8") as file:
        yield TextFile(file)


async def read_bytes(path: Path) -> bytes:
    """Return the bytes of a file.

    Raises:
        OSError: it can't be read.
    """
    async with _opened(path, "rb") as file:
        return await _to_end(file.read)


@asynccontextmanager
async def _opened(path: Path, mode: Any, **options: Any) -> AsyncGenerator[Any]:
    files: list[Any] = []

    async def open_it() -> None:
        if on_trio():
            files.append(await anyio.open_file(path, mode, **options))
            return
        import aiofiles

        files.append(await aiofiles.open(path, mode, **options))

    try:
        await _to_end(open_it)
        yield files[0]
    finally:
        for file in files:  # also one that was opened while the caller was being cancelled
            await shielded(file.aclose if on_trio() else file.close)


async def _to_end(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    await anyio.lowlevel.checkpoint_if_cancelled()
    return await shielded(work)
