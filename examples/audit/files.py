"""Writing a text file on either event loop, so that no reader ever sees half of it."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import aiofiles
import anyio

WriteText = Callable[[Path, str], Awaitable[None]]


async def write_with_aiofiles(path: Path, text: str) -> None:
    """For asyncio: aiofiles needs its loop."""
    part = await _part_of(path)
    async with aiofiles.open(part, "w", encoding="utf-8", newline="\n") as file:
        await file.write(text)
    await anyio.Path(part).replace(path)


async def write_with_anyio(path: Path, text: str) -> None:
    """For trio, where aiofiles can't run."""
    part = await _part_of(path)
    async with await anyio.open_file(part, "w", encoding="utf-8", newline="\n") as file:
        await file.write(text)
    await anyio.Path(part).replace(path)


WRITERS: dict[str, WriteText] = {"asyncio": write_with_aiofiles, "trio": write_with_anyio}


async def _part_of(path: Path) -> Path:
    """The file of the text until it is whole. A killed run leaves it to the next one."""
    await anyio.Path(path.parent).mkdir(parents=True, exist_ok=True)
    return path.with_name(f"{path.name}.part")
