"""Files of a saver of JSON lines, and what others may do to those of one client."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.web.planted_rows import BAD

_BAD = BAD.encode()


OF_ALL = {
    "systems.log": "the runs of all threads, whose later lines build on earlier ones",
}
"""Files whose damage concerns all."""


class LinePlant(NamedTuple):
    """A change of a line of a file.

    Attributes:
        form: a word for it.
        line: its number; None for the file.
        value: the new bytes.
    """

    form: str
    line: int | None
    value: bytes

    def __str__(self) -> str:
        return f"{'file' if self.line is None else f'line {self.line}'} {self.form}"


class Folder:
    """The files of a saver of JSON lines.

    Args:
        path: the folder; what is noted is kept beside it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._kept = path.with_name(f"{path.name}.kept")

    def keep(self) -> None:
        """Note all that is stored, for `restore`."""
        shutil.copytree(self.path, self._kept)

    def restore(self) -> None:
        """Put back what was noted."""
        shutil.rmtree(self.path)
        shutil.copytree(self._kept, self.path)

    def tables(self) -> list[str]:
        """The files with lines of the bad client."""
        files = (f for f in self._kept.rglob("*") if f.is_file() and f.name not in OF_ALL)
        return sorted(str(f.relative_to(self._kept)) for f in files if _BAD in f.read_bytes())

    def plants(self, table: str) -> Iterator[tuple[LinePlant, Path]]:
        """Each form of damage to the first and to the last line of the client's in a file."""
        path, whole = self.path / table, (self._kept / table).read_bytes()
        lines = whole.splitlines(keepends=True)
        numbers = [at for at, line in enumerate(lines) if _BAD in line]
        for at in sorted({numbers[0], numbers[-1]}):
            for form, value in _forms(lines[at]):
                yield LinePlant(form, at, b"".join([*lines[:at], value, *lines[at + 1 :]])), path
        if BAD in table:
            yield LinePlant("empty", None, b""), path
            yield LinePlant("cut", None, whole[: len(whole) // 2]), path

    def plant(self, plant: Any, where: Path) -> bool:
        """Change a file."""
        where.write_bytes(plant.value)
        return True


def _forms(line: bytes) -> Iterator[tuple[str, bytes]]:
    """Other bytes for a line."""
    yield "garbage", b"\xc1\xff{bad\n"
    yield "cut", line[: len(line) // 2] + b"\n"
    yield "foreign", b'{"spoilt": 1}\n'
    yield "not an object", b"[1]\n"
    yield "not UTF-8", line.replace(_BAD, b"\xff\xfe")
    yield "other types", line.replace(b':"', b':7,"q":"', 3)
