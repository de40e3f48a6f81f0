"""Processes that serve one socket: it is bound once, and each process accepts from it."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any

from actorgraph.cli.exit_codes import FAILED, CommandError, UsageError

DESCRIPTOR = "ACTORGRAPH_SERVE_FD"
"""The variable by which a worker gets the socket's number."""
BACKLOG = 100


@contextmanager
def shared_socket(host: str, port: int) -> Generator[tuple[int, int]]:
    """Bind a socket, or take over the one that the parent process has bound.

    Yields: its port and its descriptor.
    Raises:
        CommandError: the address can't be used.
    """
    inherited = os.environ.get(DESCRIPTOR)
    if inherited is not None:
        with socket.socket(fileno=int(inherited)) as taken:
            yield taken.getsockname()[1], taken.fileno()
        return
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        bound = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise CommandError(
            f"can't listen on {host} port {port}: {error.strerror or error}",
            do="use another --port; 0 takes a free one",
        ) from error
    with bound:
        bound.setblocking(False)  # noqa: FBT003 - its only argument
        yield bound.getsockname()[1], bound.fileno()


def is_worker() -> bool:
    """Whether another process has bound the socket that this one serves."""
    return DESCRIPTOR in os.environ


def check_workers(system: Any, workers: int) -> None:
    """Refuse several processes over a saver that one process has for itself.

    Raises:
        UsageError: it is one in memory, or of JSON lines.
    """
    kind = type(system.saver).__name__
    alone = not getattr(system.saver, "durable", True) or kind == "JsonlSaver"
    if workers > 1 and alone:
        raise UsageError(
            f"--workers {workers} needs a database that processes share, and {kind} isn't one",
            do="pass --db runs.db or --db postgresql://..., or use one worker",
        )


def run_workers(count: int, descriptor: int) -> int:
    """Run this command again in several processes, until one ends or Ctrl-C.

    Returns: the exit code: 0 if all ended by a signal that this process has passed on.
    """
    command = [sys.executable, "-m", "actorgraph", *_alone(sys.argv[1:])]
    environment = {**os.environ, DESCRIPTOR: str(descriptor)}
    stopping: list[int] = []

    def stop(number: int, _: object) -> None:
        stopping.append(number)
        for worker in workers:
            with suppress(ProcessLookupError):
                worker.send_signal(signal.SIGTERM)

    workers: list[subprocess.Popen[bytes]] = []
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        workers += [
            subprocess.Popen(  # noqa: S603 - this command again
                command, env=environment, pass_fds=[descriptor], start_new_session=True
            )
            for _ in range(count)
        ]
        codes = [worker.wait() for worker in workers]
    finally:
        for worker in workers:
            if worker.poll() is None:
                worker.terminate()
        for number, handler in before.items():
            signal.signal(number, handler)
    return 0 if stopping or not any(codes) else FAILED


def _alone(arguments: list[str]) -> list[str]:
    """Replace --workers by one worker."""
    found: list[str] = []
    skips = False
    for one in arguments:
        if skips or one.startswith("--workers"):
            skips = one == "--workers" and not skips
            continue
        found.append(one)
    return [*found, "--workers", "1"]
