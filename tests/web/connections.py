"""Requests to a real server whose answers are not read, and a look at its inside."""

import socket
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import httpx

from tests.web.processes import DEADLINE_S, Server

Inside = dict[str, Any]
SLEEP = {"assistant_id": "sleep", "input": {"done": []}, "if_not_exists": "create"}


STILL_LOOKS = 10
PAUSE_S = 0.02


def until(made: Server, holds: Callable[[Inside], bool]) -> Inside:
    """The inside, as soon as a condition holds."""
    *_, last = looks_until(made, lambda looks: holds(looks[-1]))
    return last


def looks_until(made: Server, holds: Callable[[list[Inside]], bool]) -> list[Inside]:
    """All looks at the inside, until something holds of them; given up when nothing changes."""
    looks = [made.inside()]
    changed = time.monotonic()
    while not holds(looks):
        assert time.monotonic() - changed < DEADLINE_S, looks[-1]
        time.sleep(PAUSE_S)
        looks.append(made.inside())
        if looks[-1]["last"] != looks[-2]["last"]:
            changed = time.monotonic()
    return looks


def settled(made: Server) -> Inside:
    """The inside once its tasks stay the same for many looks: what starts has started."""

    def stand(looks: list[Inside]) -> bool:
        latest = looks[-STILL_LOOKS:]
        return len(latest) == STILL_LOOKS and all(i["tasks"] == latest[0]["tasks"] for i in latest)

    return looks_until(made, stand)[-1]


def more_tasks(inside: Inside, before: Inside) -> Inside:
    """The names of the tasks that there are now and were not before, with their numbers."""
    return dict(Counter(inside["tasks"]) - Counter(before["tasks"]))


def has_left(looks: list[Inside]) -> bool:
    """Whether a run has left."""
    return bool(looks[-1]["left"])


def stands(looks: list[Inside]) -> bool:
    """Whether the run has been held by its reader for many looks, at the same event."""
    latest = looks[-STILL_LOOKS:]
    held = len(latest) == STILL_LOOKS and all(look["held"] for look in latest)
    return held and len({look["last"] for look in latest}) == 1


def is_at_rest(inside: Inside) -> bool:
    return not (inside["active"] or inside["threads"] or inside["streams"] or inside["readers"])


def begun(made: Server, path: str, body: dict[str, Any]) -> socket.socket:
    """A request that is sent, and whose answer is not read."""
    content = httpx.Request("POST", f"{made.url}{path}", json=body)
    lines = [f"POST {path} HTTP/1.1", *(f"{k}: {v}" for k, v in content.headers.items())]
    place = httpx.URL(made.url)
    made_socket = socket.create_connection((place.host, place.port), DEADLINE_S)
    made_socket.sendall("\r\n".join([*lines, "", ""]).encode() + content.content)
    return made_socket


HEAD = b"POST /threads HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n"


def dribbler(made: Server) -> socket.socket:
    """A connection."""
    place = httpx.URL(made.url)
    return socket.create_connection((place.host, place.port), DEADLINE_S)


def dribbled(made: Server, slow: socket.socket, *, bytes_max: int) -> bytes | None:
    """Send byte after byte until the server ends that; its answer, None if it never did.

    Each byte is followed by a request of another client, which has to be answered.
    """
    said = b""
    slow.settimeout(PAUSE_S)
    for _ in range(bytes_max):
        try:
            slow.sendall(b"x")
            more = slow.recv(4096)
        except TimeoutError:
            made.inside()
            continue
        except OSError:
            return said
        said += more
        if not more:
            return said
    return None
