"""Requests to a real server that nobody reads the answers of, and looks at its inside."""

import socket
import time
from collections.abc import Callable
from typing import Any

import httpx

from tests.web.processes import DEADLINE_S, Server

SLEEP = {"assistant_id": "sleep", "input": {"done": []}, "if_not_exists": "create"}


def until(made: Server, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """What is inside, as soon as something holds of it."""
    end = time.monotonic() + DEADLINE_S
    while not holds(inside := made.inside()):
        assert time.monotonic() < end, inside
    return inside


def is_at_rest(inside: dict[str, Any]) -> bool:
    return not (inside["active"] or inside["threads"] or inside["streams"] or inside["readers"])


def begun(made: Server, path: str, body: dict[str, Any]) -> socket.socket:
    """A request that is sent, and whose answer is not read."""
    content = httpx.Request("POST", f"{made.url}{path}", json=body)
    lines = [f"POST {path} HTTP/1.1", *(f"{k}: {v}" for k, v in content.headers.items())]
    place = httpx.URL(made.url)
    made_socket = socket.create_connection((place.host, place.port), DEADLINE_S)
    made_socket.sendall("\r\n".join([*lines, "", ""]).encode() + content.content)
    return made_socket
