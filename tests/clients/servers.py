"""Servers of `tests.clients.app`, which come back on their port, and nginx in front of them."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.support.source_files import ROOT
from tests.web.processes import DEADLINE_S, Server, server

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
CURL = shutil.which("curl")
HOW_TO = ROOT / "docs" / "how-to" / "behind-a-proxy.md"
LEASE_S = 2.0
DEFAULT = """
server {
    listen 80;
    location / {
        proxy_pass http://127.0.0.1:8000;
    }
}
"""
"""Nothing but `proxy_pass`: HTTP/1.0 to the application, and answers are buffered."""


def how_to() -> str:
    """The configuration that the how-to guide shows."""
    _, _, after = HOW_TO.read_text().partition("```nginx\n")
    return after.partition("```")[0]


def free_port() -> int:
    """A port that nothing listens on now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def serving(path: Path, port: int, kind: str = "uvicorn", **options: Any) -> Any:
    """Start the application on a port, as often as a test kills it: a context manager."""
    return server(kind, path, lease_s=LEASE_S, module="tests.clients.app", port=port, **options)


@contextmanager
def nginx(folder: Path, port: int, config: str, extra: str = "") -> Iterator[str]:
    """Run nginx in front of a port; yields its address.

    Args:
        config: of its part `http`, with the ports 80 and 8000 for its own and the application's.
        extra: directives in front of it.
    """
    own, place = free_port(), folder / "nginx"
    place.mkdir()
    config = config.replace("listen 80;", f"listen 127.0.0.1:{own};")
    config = config.replace(":8000;", f":{port};")
    paths = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temporary = "".join(f"{one}_temp_path {place}/{one};\n" for one in paths)
    user = "user root;\n" if os.geteuid() == 0 else ""
    (place / "nginx.conf").write_text(
        f"{user}daemon off; worker_processes 1; pid {place}/pid; error_log {place}/errors;\n"
        f"events {{}}\nhttp {{ access_log off;\n{temporary}{extra}\n{config}\n}}\n"
    )
    command = [str(NGINX), "-e", place / "errors", "-p", place, "-c", place / "nginx.conf"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        _wait_for(own, process, place / "errors")
        yield f"http://127.0.0.1:{own}"
    finally:
        process.terminate()
        process.wait(DEADLINE_S)


def _wait_for(port: int, process: subprocess.Popen[bytes], errors: Path) -> None:
    end = time.monotonic() + DEADLINE_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            assert process.poll() is None, errors.read_text()
            assert time.monotonic() < end, "nginx doesn't answer"
            time.sleep(0.02)
        else:
            return


def begin(address: str, graph: str, given: Any, thread_id: str = "t", **options: Any) -> str:
    """Start a resumable run, and return its id."""
    body = {
        "assistant_id": graph,
        "input": given,
        "stream_resumable": True,
        "if_not_exists": "create",
        "durability": "sync",
        **options,
    }
    made = httpx.post(f"{address}/threads/{thread_id}/runs", json=body, timeout=DEADLINE_S)
    assert made.status_code == 200, made.text
    return made.json()["run_id"]


def let(made: Server) -> None:
    """Let the graph "words" write one word."""
    httpx.post(f"{made.url}/open", timeout=DEADLINE_S)
