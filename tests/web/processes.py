"""Servers in processes of their own, to be looked into, killed and started again."""

import json
import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.support.warm_processes import WEB, popen

ROOT = Path(__file__).parents[2]
DEADLINE_S = 30


class Server:
    """`tests.web.inspected_app`, or another module like it, as a process, with its address.

    Args:
        lease_s: short where it is killed; long enough otherwise for a machine that is busy.
    """

    def __init__(
        self,
        kind: str,
        path: Path,
        *,
        lease_s: float = 60.0,
        module: str = "tests.web.inspected_app",
        **limits: Any,
    ) -> None:
        words = [kind, path, lease_s, json.dumps(limits)]
        self.process = popen(
            ["-m", module, *words],
            WEB,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=ROOT,
        )
        self.said: list[str] = []
        self.url = self._address()
        self._rest = threading.Thread(target=self._read, daemon=True)
        self._rest.start()

    def _address(self) -> str:
        for line in self.process.stdout or ():
            self.said.append(line)
            found = re.search(r"running on (http://[\d.:]+)", line, re.IGNORECASE)
            if found:
                return found.group(1)
        raise AssertionError("".join(self.said))

    def _read(self) -> None:
        self.said.extend(self.process.stdout or ())

    def kill(self) -> None:
        """As when the power fails, for this process."""
        self.process.kill()
        self.end()

    def stop(self) -> None:
        """SIGTERM."""
        self.process.terminate()
        self.end()

    def end(self) -> None:
        """Wait until it is gone."""
        self.process.wait(DEADLINE_S)
        self._rest.join(DEADLINE_S)
        if self.process.stdout is not None:
            self.process.stdout.close()

    def inside(self) -> dict[str, Any]:
        return httpx.get(f"{self.url}/inside", timeout=DEADLINE_S).json()


@contextmanager
def server(kind: str, path: Path, **limits: Any) -> Iterator[Server]:
    made = Server(kind, path, **limits)
    try:
        yield made
    finally:
        if made.process.poll() is None:
            made.kill()
