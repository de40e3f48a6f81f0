"""The example applications, started for real and driven over HTTP."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.support.warm_processes import WEB, popen

EXAMPLES = Path(__file__).parents[2] / "examples"
SERVERS = {
    "fastapi, uvicorn": ("uvicorn", "fastapi_app"),
    "starlette, uvicorn": ("uvicorn", "starlette_app"),
    "litestar, uvicorn": ("uvicorn", "litestar_app"),
    "starlette, hypercorn on asyncio": ("asyncio", "starlette_app"),
    "starlette, hypercorn on trio": ("trio", "starlette_app"),
}
USER = {"x-user": "ann"}


def command(server: str, module: str) -> list[str]:
    if server == "uvicorn":
        return ["uvicorn", f"{module}:app", "--port", "0", "--timeout-graceful-shutdown", "10"]
    return ["hypercorn", f"{module}:app", "-b", "127.0.0.1:0", "-k", server]


@contextmanager
def started(server: str, module: str, database: Path) -> Iterator[str]:
    """The server in a process of its own; yields its address."""
    environment = {**os.environ, "CHAT_DB": str(database), "PYTHONUNBUFFERED": "1"}
    environment["PYTHONPATH"] = os.pathsep.join([str(EXAMPLES.parent), str(EXAMPLES)])
    process = popen(
        ["-m", *command(server, module)],
        WEB,
        stderr=subprocess.STDOUT,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=EXAMPLES,
    )
    assert process.stdout is not None
    said = ""
    for line in process.stdout:
        said += line
        found = re.search(r"running on (http://[\d.:]+)", line, re.IGNORECASE)
        if found:
            break
    else:
        pytest.fail(said)
    try:
        yield found.group(1)
    finally:
        process.send_signal(signal.SIGTERM)
        rest, _ = process.communicate(timeout=30)
        assert "Traceback" not in rest, rest


def events(text: str) -> list[str]:
    return re.findall(r"^event: (.*)$", text, re.MULTILINE)


QUICK = {"fastapi, uvicorn", "starlette, hypercorn on trio"}
CASES = [pytest.param(name, marks=[pytest.mark.long] * (name not in QUICK)) for name in SERVERS]


@pytest.mark.parametrize("name", CASES)
def test_a_run_waits_for_its_answer_across_restarts(name, tmp_path):
    """
    A run is streamed up to its question; after a restart of the server the answer ends it.
    """
    server, module = SERVERS[name]
    with (
        started(server, module, tmp_path / "chat.db") as url,
        httpx.Client(base_url=url, headers=USER, timeout=30) as client,
    ):
        streamed = client.post("/chat/ann-1", json={"question": "why?"})
        state = client.get("/graph/threads/ann-1/state").json()
    with (
        started(server, module, tmp_path / "chat.db") as url,
        httpx.Client(base_url=url, headers=USER, timeout=30) as client,
    ):
        answered = client.post("/chat/ann-1/approve", json={"verdict": "yes"}).json()

    assert events(streamed.text)[0] == "metadata"
    assert events(streamed.text)[-1] == "end"
    assert state["next"] == ["send"]
    assert answered["sent"] == ["You asked: why?"]


def test_strangers_are_kept_out(tmp_path):
    """
    The FastAPI example asks for a name, and shows no client another one's thread.
    """
    with (
        started("uvicorn", "fastapi_app", tmp_path / "chat.db") as url,
        httpx.Client(base_url=url, timeout=30) as client,
    ):
        nobody = client.post("/chat/ann-1", json={"question": "why?"})
        other = client.post("/chat/ann-1", json={"question": "why?"}, headers={"x-user": "bob"})
        below = client.get("/graph/threads/ann-1/state", headers={"x-user": "bob"})

    assert (nobody.status_code, other.status_code, below.status_code) == (401, 404, 404)
