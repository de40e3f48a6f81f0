"""The fenced blocks of a page of Markdown."""

import re
from dataclasses import dataclass

FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>```+|~~~+) *(?P<info>.*)$")
TITLE = re.compile(r'title="([^"]+)"')


@dataclass(frozen=True)
class Block:
    """One fenced block: the number of its first line, counted from 0, and its lines."""

    info: str
    first: int
    lines: tuple[str, ...]

    @property
    def runs(self):
        return self.info.split() == ["python"]

    @property
    def compiles(self):
        return self.info.split()[:1] == ["python"]

    @property
    def title(self):
        """The name of the file that this block is, if it is one."""
        found = TITLE.search(self.info)
        return found[1] if found else None


def blocks(text):
    """The fenced blocks of a Markdown text, without the indent of their list item."""
    lines, start, opening = text.splitlines(), 0, None
    for number, line in enumerate(lines):
        fence = FENCE.match(line)
        if opening is None and fence:
            start, opening = number + 1, fence
        elif opening and line.strip().startswith(opening["ticks"]) and not fence["info"]:
            inside = (x.removeprefix(opening["indent"]) for x in lines[start:number])
            yield Block(opening["info"].strip(), start, tuple(inside))
            opening = None
    assert opening is None, f"line {start}: this block is never closed"
