"""A shell that follows a page: it runs commands as a reader types them, and compares their output.

`Shell.run(command, shown)` waits until the command has ended; `shown` must be the whole output.
A command that ends with `&` goes on: its output must begin with `shown`, and the next command is
typed once it has appeared. `...` in a shown line is any text, a line of it alone any lines.

Ends       with the block: the shell and all that it has started are killed, by their group
Bounds     each wait lasts at most `SECONDS_MAX`
"""

import os
import re
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Self, cast

from tests.support.source_files import ROOT

SECONDS_MAX = 60
ENDED = re.compile(r"<<ended (\d+)>>\n")
KILLED = re.compile(r"(?m)^\S*bash: line \d+: +\d+ Killed .*\n")
"""A remark of bash about a program in the background; terminals show another one."""


def pattern(shown: Sequence[str]) -> re.Pattern[str]:
    """Match the lines that a page shows; blank lines at the end don't count."""
    made = ""
    for line in shown:
        if line.strip() == "...":
            made += r"(?:.*\n)*?"
        else:
            made += r"[^\n]*?".join(map(re.escape, line.rstrip().split("..."))) + r"[ \t]*\n"
    return re.compile(made + r"\s*")


class Shell:
    """A bash in a folder, with this tree's package and this interpreter's programs."""

    def __init__(self, folder: Path, replaced: dict[str, str]) -> None:
        """
        Args:
            folder: where commands run.
            replaced: texts of the page -> texts of this machine, such as a free port. In the
                output they are changed back.
        """
        self._replaced = replaced
        self._seen = ""
        self._process = subprocess.Popen(
            ["/bin/bash", "--noprofile", "--norc"],
            cwd=folder,
            env=_environment(folder),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._output = cast("IO[bytes]", self._process.stdout)
        self._ready = selectors.DefaultSelector()
        self._ready.register(self._output, selectors.EVENT_READ)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._ready.close()
        self._output.close()
        cast("IO[bytes]", self._process.stdin).close()

    def run(self, command: str, shown: Sequence[str], *, fails: bool = False) -> None:
        """Run one command and hold it to the output that the page shows."""
        goes_on = command.rstrip().endswith("&")
        self._type(command if goes_on else f"{command}\necho '<<ended '$?'>>'")
        if goes_on:
            found = self._wait(lambda text: pattern(shown).match(text), command, shown)
            self._seen = self._seen[found.end() :]
            return
        ended = self._wait(ENDED.search, command, shown)
        text, self._seen = self._seen[: ended.start()], self._seen[ended.end() :]
        text = KILLED.sub("", text)
        whole = f"{text}\n" if text and not text.endswith("\n") else text
        assert pattern(shown).fullmatch(whole), (
            f"$ {command}\n\nshown:\n{chr(10).join(shown)}\n\nfound:\n{text}"
        )
        assert (ended[1] != "0") is fails, f"$ {command}\n\nexit code {ended[1]}:\n{text}"

    def _type(self, text: str) -> None:
        for page, machine in self._replaced.items():
            text = text.replace(page, machine)
        stdin = cast("IO[bytes]", self._process.stdin)
        stdin.write(f"{text}\n".encode())
        stdin.flush()

    def _wait(self, found: Any, command: str, shown: Sequence[str]) -> re.Match[str]:
        until = time.monotonic() + SECONDS_MAX
        while (match := found(self._seen)) is None:
            left = until - time.monotonic()
            arrived = self._ready.select(max(0.0, left)) and os.read(self._output.fileno(), 65536)
            text = "\n".join(shown)
            assert arrived, f"$ {command}\n\nwaited for:\n{text}\n\nfound:\n{self._seen}"
            more = arrived.decode(errors="replace").replace("\r\n", "\n")
            for page, machine in self._replaced.items():
                more = more.replace(machine, page)
            self._seen += more
        return match


def _environment(folder: Path) -> dict[str, str]:
    programs = folder.parent / "programs"
    programs.mkdir(exist_ok=True)
    ours = programs / "actorgraph"  # as the installed command, of this tree
    ours.write_text(f'#!/bin/sh\nexec {sys.executable} -m actorgraph "$@"\n', "utf-8")
    ours.chmod(0o755)
    path = [str(programs), str(Path(sys.executable).parent), os.environ["PATH"]]
    return {
        **os.environ,
        "PATH": os.pathsep.join(path),
        "PYTHONPATH": str(ROOT),
        "PYTHONIOENCODING": "utf-8",
        "PYTHONUNBUFFERED": "1",  # as at a terminal
        "PYTHONWARNINGS": "error",
        "COLUMNS": "100",
        "NO_COLOR": "1",
        "TERM": "dumb",
    }
