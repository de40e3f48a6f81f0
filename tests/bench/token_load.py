"""Clients of a server of tokens: bare sockets, so that they cost little beside the server.

Each client sends what a program of that kind sends, reads to the end, and keeps when its first
token came and all of the body. `routes` is the request of langgraph-sdk's `runs.stream`, `protocol`
the two of its `threads.stream`: a command that starts the run, and a subscription of its events.
"""

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

HOST = "127.0.0.1"
PATIENCE_S = 240
PART_BYTES = 65_536
STAMP = re.compile(rb"tok\d+@(\d+)")
TOKEN = b"tok"
INPUT = {"messages": [{"role": "user", "content": "hi"}]}
COMPLETED = re.compile(rb'"event": ?"(completed|failed)"')
"""The last event of a run in the streaming protocol; its stream stays open for the next run."""


@dataclass(frozen=True)
class Answer:
    """One client's answer: seconds to the first token and to the end, its bytes and its tokens.

    Attributes:
        delays_s: of each token, from its being written to its being read, if it has the time.
    """

    first_s: float
    whole_s: float
    size: int
    tokens: int
    delays_s: tuple[float, ...] = ()


class Reading:
    """Reads one body, and keeps when things came."""

    def __init__(self, ends: re.Pattern[bytes] | None) -> None:
        self._begun = time.perf_counter()
        self._ends = ends
        self._first_s: float | None = None
        self._body = bytearray()
        self._delays_s: list[float] = []

    async def read(self, reader: asyncio.StreamReader) -> Answer:
        """Read to the connection's end, or to what ends the body."""
        while part := await reader.read(PART_BYTES):
            if self._take(part):
                break
        whole_s = time.perf_counter() - self._begun
        return Answer(
            self._first_s if self._first_s is not None else whole_s,
            whole_s,
            len(self._body),
            self._body.count(TOKEN),
            tuple(self._delays_s),
        )

    def _take(self, part: bytes) -> bool:
        """Keep a part; whether it ends the body."""
        # What is looked for may be cut between two parts: begin in the part before.
        seen = max(0, len(self._body) - 40)
        self._body += part
        if self._first_s is None and TOKEN in self._body[seen:]:
            self._first_s = time.perf_counter() - self._begun
        now = now_ns()
        for stamp in STAMP.findall(part):
            self._delays_s.append((now - int(stamp)) / 1e9)
        return self._ends is not None and self._ends.search(self._body, seen) is not None


def now_ns() -> int:
    """The clock of the times in tokens, which all processes of a machine share."""
    return time.monotonic_ns()


Client = Callable[[int, str], Awaitable[Answer]]
"""A client of a server's port, with a name that no other one has."""


async def chat(port: int, name: str) -> Answer:
    """Start a run by a program's own route, and read its stream."""
    return await _ask(port, f"/chats/{name}", {"text": "hi"})


async def routes(port: int, name: str) -> Answer:
    """Start a run on a new thread by LangGraph's routes, and read its stream."""
    body = {
        "assistant_id": "chat",
        "input": INPUT,
        "stream_mode": ["messages-tuple"],
        "if_not_exists": "create",
    }
    return await _ask(port, f"/threads/{uuid4()}/runs/stream", body)


async def protocol(port: int, name: str) -> Answer:
    """Start a run on a new thread by a command, and read the thread's events to the run's end."""
    thread = f"/threads/{uuid4()}"
    begun = time.perf_counter()
    params = {"assistant_id": "chat", "input": INPUT}
    command = {"id": 1, "method": "run.start", "params": params}
    await _ask(port, f"{thread}/commands", command)
    before_s = time.perf_counter() - begun
    wanted = {"channels": ["messages", "lifecycle"]}
    answer = await _ask(port, f"{thread}/stream/events", wanted, ends=COMPLETED)
    first_s, whole_s = answer.first_s + before_s, answer.whole_s + before_s
    return Answer(first_s, whole_s, answer.size, answer.tokens)


async def silent(port: int, name: str) -> Answer:
    """Start a run that writes no tokens on a new thread, and wait for its end."""
    body = {"assistant_id": "chat", "input": {"text": "hi"}, "if_not_exists": "create"}
    return await _ask(port, f"/threads/{uuid4()}/runs/wait", body)


CLIENTS: dict[str, Client] = {"routes": routes, "protocol": protocol, "silent": silent}
"""The clients of servers that aren't spoken to by `chat`, by kind."""


async def at_once(client: Client, port: int, count: int, tag: str) -> list[Answer | Exception]:
    """So many clients at once; what each got."""
    asked = [client(port, f"{tag}-{number}") for number in range(count)]
    async with asyncio.timeout(PATIENCE_S):
        found = await asyncio.gather(*asked, return_exceptions=True)
    return [one for one in found if isinstance(one, Answer | Exception)]


async def in_turn(client: Client, port: int, count: int, tag: str) -> list[Answer]:
    """So many clients, one after the other."""
    return [await client(port, f"{tag}-{number}") for number in range(count)]


async def _ask(
    port: int, path: str, body: dict[str, Any], *, ends: re.Pattern[bytes] | None = None
) -> Answer:
    content = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/json\r\n"
        f"Connection: close\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    reading = Reading(ends)
    reader, writer = await asyncio.open_connection(HOST, port)
    try:
        writer.write(head.encode() + content)
        return await reading.read(reader)
    finally:
        writer.close()


def chunk_of_model(text: str) -> bytes:
    """A token as a server of Chat Completions sends it, in a chunk of its own."""
    data = {"id": "a", "object": "chat.completion.chunk", "model": "paced"}
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
    event = f"data: {json.dumps({**data, 'choices': [choice]})}\n\n".encode()
    return b"%x\r\n%b\r\n" % (len(event), event)


async def model_server(count: int, pace_s: float) -> asyncio.Server:
    """A server of Chat Completions that answers each request with so many tokens."""
    head = (
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    )
    stop = {"index": 0, "delta": {}, "finish_reason": "stop"}
    last = f"data: {json.dumps({'id': 'a', 'choices': [stop]})}\n\ndata: [DONE]\n\n".encode()
    end = b"%x\r\n%b\r\n0\r\n\r\n" % (len(last), last)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            asked = await reader.readuntil(b"\r\n\r\n")
            (length,) = re.findall(rb"content-length: (\d+)", asked.lower())
            await reader.readexactly(int(length))
            writer.write(head)
            for number in range(count):
                await asyncio.sleep(pace_s)
                writer.write(chunk_of_model(f"tok{number} "))
            writer.write(end)
            await writer.drain()
        finally:
            writer.close()

    return await asyncio.start_server(answer, HOST, 0)
