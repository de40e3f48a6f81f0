"""A server in a process of its own: its start, its end, and what /proc says about it.

CPU and memory are those of the process and its children; so the clients, which are in this process,
aren't counted. The peak of its memory is the kernel's (`VmHWM`).
"""

import os
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Self

READY_S = 90
STOP_S = 20


def free_port() -> int:
    """A TCP port of this machine that no process uses."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def dev_command(python: Path, port: int, runs_at_once: int = 10) -> list[str]:
    """The command of `langgraph dev`, by default with as many runs at once as its own default."""
    program = str(python.with_name("langgraph"))
    more = ["--no-browser", "--no-reload", "--n-jobs-per-worker", str(runs_at_once)]
    return [program, "dev", "--port", str(port), *more]


class ServerProcess:
    """A process that serves HTTP, as a context manager: it is ready inside.

    Args:
        command: the program with its arguments.
        port: where it is to listen.
        folder: where it runs; its output is in the file `log` there.
        environment: all of its variables.
        path: a path that is answered with 200 as soon as it is ready.
    Raises:
        TimeoutError: it isn't ready after `READY_S`, or has ended; the text has its last words.
    """

    def __init__(
        self,
        command: list[str],
        port: int,
        folder: Path,
        environment: dict[str, str],
        path: str = "/ok",
    ) -> None:
        self._command = command
        self.port = port
        self._folder = folder
        self._environment = environment
        self._path = path
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=self._folder,
                env=self._environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        end = time.monotonic() + READY_S
        while time.monotonic() < end and self._process.poll() is None:
            if self._answers():
                return self
            time.sleep(0.2)
        self.__exit__()
        log_text = (self._folder / "log").read_text(encoding="utf-8", errors="replace")
        raise TimeoutError(f"the server didn't start: {log_text[-500:]}")

    def __exit__(self, *_: object) -> None:
        if self._process is None:
            return
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGTERM)
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _answers(self) -> bool:
        request = f"GET {self._path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode()
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as link:
                link.sendall(request)
                return b" 200 " in link.recv(100)
        except OSError:
            return False

    @property
    def id(self) -> int:
        """The process's id."""
        assert self._process is not None
        return self._process.pid

    def cpu_s(self) -> float:
        """Seconds of CPU so far, user's and system's, of the process and its children."""
        ticks = 0
        for one in _family(self.id):
            fields = _stat(one)
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def memory_bytes(self) -> int:
        """Bytes of memory that are in RAM now."""
        return sum(_memory_bytes(one, "VmRSS") for one in _family(self.id))

    def peak_bytes(self) -> int:
        """The most bytes of memory that have been in RAM."""
        return sum(_memory_bytes(one, "VmHWM") for one in _family(self.id))


def _family(process: int) -> list[int]:
    """A process and its children."""
    found = [process]
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = _stat(int(entry.name))
            except OSError:
                continue
            if int(fields[1]) in found:
                found.append(int(entry.name))
    return found


def _stat(process: int) -> list[str]:
    """The fields of /proc/PID/stat from the third one on."""
    return Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()


def _memory_bytes(process: int, name: str) -> int:
    text = Path(f"/proc/{process}/status").read_text(encoding="utf-8", errors="replace")
    (line,) = [line for line in text.splitlines() if line.startswith(f"{name}:")]
    return int(line.split()[1]) * 1024
