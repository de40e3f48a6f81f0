"""Processes that start at once: forks of a Python that has imported its libraries.

A new interpreter takes a quarter of a second of CPU for its imports, which are the same in most
programs of the tests. `popen` is `subprocess.Popen` for Python's arguments: a process of its own
pid, pipes, signals and exit status, which runs the program as `__main__`, as if just started.

    process = popen(["-m", "tests.support.dispatch_worker", loop], stdout=PIPE, text=True, cwd=ROOT)

A program that is about imports, or the interpreter's options, is started with `subprocess`.
"""

import atexit
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, NoReturn

from tests.support.source_files import ROOT

BASE = (
    *(
        "trio",
        "psycopg",
        "rich.console",
        "rich.live",
        "rich.table",
        "sqlite3",
        "tests.support.graphs",
    ),
    *("actorgraph.api.system.system", "actorgraph.savers.sqlite.saver", "tests.support.gates"),
    *("actorgraph.savers.postgres.saver", "actorgraph.savers.jsonl.saver", "actorgraph.functional"),
    *("actorgraph.dispatch", "actorgraph.savers.memory.saver", "actorgraph.streams"),
)
"""Imports of most programs."""
WEB = (*BASE, "httpx", "uvicorn", "hypercorn.config", "starlette.applications", "actorgraph.web")
"""Imports of most servers."""


class WarmPopen(subprocess.Popen[Any]):
    """A fork of a warm process; see `popen`."""

    def __init__(self, warm: "Warm", words: Sequence[object], **options: Any) -> None:
        self._warm = warm
        self._status = -1
        self._turn = threading.Lock()
        self._stops = 0
        super().__init__([str(word) for word in words], **options)

    def _execute_child(self, args: list[str], *given: Any) -> None:
        _, _, _, _, cwd, env, _, _, _, *pipes = given[:15]
        read, write = os.pipe()
        theirs = [pipes[0], pipes[3], pipes[5]]
        streams = [own if pipe == -1 else pipe for own, pipe in enumerate(theirs)]
        order = {
            "words": args,
            "cwd": str(cwd or Path.cwd()),
            "env": dict(os.environ if env is None else env),
        }
        try:
            self.pid = self._warm.fork(order, [*streams, write])
        finally:
            os.close(write)
        self._child_created = True
        self._status = read
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        if self.returncode is None and self._turn.acquire(blocking=False):
            try:
                if self.returncode is None:  # another thread may just have seen its end
                    self._look(0.0)
            finally:
                self._turn.release()
        return self.returncode

    def _wait(self, timeout: float | None) -> int:
        end = None if timeout is None else time.monotonic() + timeout
        with self._turn:
            while self.returncode is None:
                left = None if end is None else max(end - time.monotonic(), 0.0)
                if not self._look(left):
                    raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        return self.returncode

    def wait_for_stop(self) -> None:
        """Wait until a SIGSTOP has stopped it, or it has ended."""
        with self._turn:
            while not self._stops and self.returncode is None:
                self._look(None)
            self._stops = 0

    def _look(self, timeout: float | None) -> bool:
        """Read the next statuses; returns False if none came in time."""
        poll = select.poll()  # a test may have more files than `select` takes
        poll.register(self._status, select.POLLIN)
        if not poll.poll(None if timeout is None else timeout * 1000):
            return False
        said = os.read(self._status, 4096).decode()
        for word in said.split():
            if word == "stopped":
                self._stops += 1
            else:
                self.returncode = int(word)
        if not said:  # the warm process has gone
            self.returncode = -signal.SIGKILL
        if self.returncode is not None:
            os.close(self._status)
        return True


class Warm:
    """A process that has imported modules, and forks.

    Args:
        modules: imported in this order.
    """

    def __init__(self, modules: Sequence[str]) -> None:
        self._turn = threading.Lock()
        self._owner = os.getpid()
        self._socket, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-m", "tests.support.warm_processes", str(theirs.fileno())]
            self._process = subprocess.Popen(
                [*command, *modules],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                cwd=ROOT,
            )
        atexit.register(self.end)

    def fork(self, order: dict[str, Any], streams: list[int]) -> int:
        """Start a program; returns its pid."""
        with self._turn:
            socket.send_fds(self._socket, [json.dumps(order).encode() + b"\n"], streams)
            told = self._socket.recv(64)
        assert told, "the warm process has ended"
        return int(told)

    def end(self) -> None:
        """Let it end; a fork of this process leaves it alone."""
        if os.getpid() == self._owner:
            with suppress(OSError):  # it has ended
                self._socket.shutdown(socket.SHUT_RDWR)
            self._socket.close()
            self._process.wait()


@cache
def _warm(_: int, modules: tuple[str, ...]) -> Warm:
    return Warm(modules)


def popen(
    words: Sequence[object], modules: tuple[str, ...] = BASE, **options: Any
) -> "subprocess.Popen[Any]":
    """Start Python with some arguments, in a fork of a process that has imported modules.

    Args:
        words: "-m" and a module, "-c" and a program, or the path of a script; then its arguments.
        options: of `subprocess.Popen`: the pipes, `text`, `bufsize`, `cwd` and `env`.
    """
    return WarmPopen(_warm(os.getpid(), modules), words, **options)


def run(
    words: Sequence[object],
    modules: tuple[str, ...] = BASE,
    *,
    timeout: float = 60.0,
    check: bool = False,
    **options: Any,
) -> "subprocess.CompletedProcess[Any]":
    """Run a program to its end, its output and errors captured; as `subprocess.run`."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with popen(words, modules, **pipes, **options) as process:
        try:
            output, errors = process.communicate(timeout=timeout)
        except BaseException:
            process.kill()
            raise
    assert not check or process.returncode == 0, errors
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors)


def serve(orders: socket.socket) -> dict[str, Any] | None:
    """Fork for each order; returns the order in each fork, and None at the end."""
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake)
    statuses: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([orders, woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
            _report(statuses)
        if orders not in ready:
            continue
        text, streams, _, _ = socket.recv_fds(orders, 2**20, 4)
        while text and not text.endswith(b"\n"):
            text += orders.recv(2**20)
        if not text:
            return None
        pid = os.fork()
        if not pid:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for number, stream in enumerate(streams[:3]):
                os.dup2(stream, number)
            for one in (woken, wake, *streams, *statuses.values()):
                os.close(one)
            orders.close()
            return json.loads(text)
        for stream in streams[:3]:
            os.close(stream)
        statuses[pid] = streams[3]
        orders.send(str(pid).encode())


def _report(statuses: dict[int, int]) -> None:
    """Hand on which forks have stopped or ended."""
    for pid in list(statuses):
        done, status = os.waitpid(pid, os.WNOHANG | os.WUNTRACED)
        if done:
            stopped = os.WIFSTOPPED(status)
            word = "stopped" if stopped else str(os.waitstatus_to_exitcode(status))
            with suppress(BrokenPipeError):  # its `WarmPopen` is gone
                os.write(statuses[pid], f"{word}\n".encode())
            if not stopped:
                os.close(statuses.pop(pid))


def become(order: dict[str, Any]) -> None:
    """Run a program as `__main__`."""
    os.environ.clear()
    os.environ.update(order["env"])
    os.chdir(order["cwd"])
    if order["env"].get("PYTHONUNBUFFERED"):
        sys.stdout.reconfigure(write_through=True)  # type: ignore[union-attr]
    kind, *words = order["words"]
    sys.path[0] = order["cwd"]
    paths = order["env"].get("PYTHONPATH", "").split(os.pathsep)
    sys.path[1:1] = [path for path in paths if path and path not in sys.path]
    if kind == "-m":
        sys.argv = words
        if not hasattr(sys.modules.get(words[0]), "__path__"):
            sys.modules.pop(words[0], None)  # it runs anew
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)
    elif kind == "-c":
        sys.argv = ["-c", *words[1:]]
        sys.modules["__main__"] = module = ModuleType("__main__")
        FunctionType(compile(words[0], "<string>", "exec"), vars(module))()
    else:
        sys.argv = [kind, *words]
        sys.path[0] = str(Path(kind).resolve().parent)
        runpy.run_path(kind, run_name="__main__")


def main() -> None:
    """Import, then fork for each order; a fork goes on as the program."""
    for module in sys.argv[2:]:
        import_module(module)
    gc.collect()
    gc.freeze()
    order = serve(socket.socket(fileno=int(sys.argv[1])))
    if order is None:
        return
    try:
        become(order)
    except SystemExit as end:
        if not isinstance(end.code, int | None):
            raise
        leave(end.code or 0)
    leave(0)


def leave(status: int) -> NoReturn:
    """End as the interpreter does, but that the system takes back the memory.

    To free each object of the imports takes ten times as long as the fork: 40 ms.
    """
    threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001 - waits for threads
    atexit._run_exitfuncs()  # noqa: SLF001 - as the interpreter does
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    main()
