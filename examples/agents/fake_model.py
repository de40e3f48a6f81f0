"""A language model for offline runs: a local server of Chat Completions, with a rule as its mind.

    with chat_model(rule) as model:  # a real one, if OPENAI_BASE_URL or OPENAI_API_KEY is set
        agent = create_react_agent(model, tools)

`rule(messages)` gets the conversation as the server receives it and returns a text, or a list of
tool calls `(name, arguments)`. The server streams when it is asked to, counts tokens (words), and
can fail on purpose: `FakeModel(rule, faults=["429", "500"])` spends one fault per request. It needs
the standard library only.
"""

import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Self

from actorgraph.prebuilt import ChatCompletions

Reply = str | list[tuple[str, dict[str, Any]]]
Rule = Callable[[list[dict[str, Any]]], Reply]

FAULTS = {
    "401": "the key is wrong",
    "429": "too many requests, come back after Retry-After",
    "500": "an internal error",
    "broken": "the connection ends in the middle of the stream",
    "early": "the stream ends without its last chunk",
    "error": "an error as a chunk of the stream",
    "slow": "silence, until the client leaves",
}


class FakeModel:
    """A server on a free port of this machine, in threads of its own, while the block runs.

    Args:
        rule: makes the replies.
        faults: what happens to the first requests, by the names of `FAULTS`; "" is none.
        retry_after_s: what a 429 asks for.
        word_s: seconds between two words of a stream.
    Attributes:
        url: up to `/v1`.
        requests: the bodies received so far.
        keys: the bearer tokens received so far.
    """

    def __init__(
        self,
        rule: Rule,
        faults: Sequence[str] = (),
        *,
        retry_after_s: float = 1,
        word_s: float = 0.0,
    ) -> None:
        self.rule = rule
        self.faults = list(faults)
        self.retry_after_s = retry_after_s
        self.word_s = word_s
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.closing = threading.Event()
        handler = type("Handler", (_Handler,), {"fake": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = False  # closing waits for them
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> Self:
        # 10 ms: how long closing waits.
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    """One request; `fake` is the server's FakeModel."""

    fake: ClassVar[FakeModel]

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""

    def do_POST(self) -> None:
        """Answer a request for a completion."""
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.fake.requests.append(body)
        self.fake.keys.append((self.headers["authorization"] or "").removeprefix("Bearer "))
        fault = self.fake.faults.pop(0) if self.fake.faults else ""
        if fault == "slow":
            self.fake.closing.wait()
        elif fault.isdigit():
            error = {"error": {"message": FAULTS[fault], "type": "fake"}}
            self._json(int(fault), error)
        elif body.get("stream"):
            self._stream(body, fault)
        else:
            self._json(200, self._whole(body))

    def _json(self, status: int, data: Any) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        if status == 429:
            self.send_header("retry-after", f"{self.fake.retry_after_s:g}")
        self.end_headers()
        self.wfile.write(json.dumps(data).encode())

    def _reply(self, body: dict[str, Any]) -> tuple[str, list[dict[str, Any]]]:
        """Return the text and the tool calls, with ids that no other request has."""
        made = self.fake.rule(body["messages"])
        if isinstance(made, str):
            return made, []
        number = len(self.fake.requests)
        return "", [
            {
                "index": index,
                "id": f"call-{number}-{index}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(arguments)},
            }
            for index, (name, arguments) in enumerate(made)
        ]

    def _whole(self, body: dict[str, Any]) -> dict[str, Any]:
        text, calls = self._reply(body)
        message = {"role": "assistant", "content": text, "tool_calls": calls}
        choice = {"index": 0, "message": message, "finish_reason": _finish(calls)}
        return {"id": "fake", "model": body["model"], "choices": [choice], "usage": _usage(body)}

    def _stream(self, body: dict[str, Any], fault: str) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        if fault == "broken":  # more is promised than will come
            self.send_header("content-length", "1000000")
        self.end_headers()
        text, calls = self._reply(body)
        for piece in _pieces(text, calls):
            self._chunk(body, [{"index": 0, "delta": piece, "finish_reason": None}])
            if fault == "error":
                self._event({"error": {"message": FAULTS[fault]}})
            if fault:
                return
            time.sleep(self.fake.word_s)
        self._chunk(body, [{"index": 0, "delta": {}, "finish_reason": _finish(calls)}])
        if body.get("stream_options", {}).get("include_usage"):
            self._chunk(body, [], usage=_usage(body))
        self.wfile.write(b"data: [DONE]\n\n")

    def _chunk(self, body: dict[str, Any], choices: list[Any], **more: Any) -> None:
        self._event({"id": "fake", "model": body["model"], "choices": choices, **more})

    def _event(self, data: Any) -> None:
        self.wfile.write(f"data: {json.dumps(data)}\n\n".encode())
        self.wfile.flush()


def _pieces(text: str, calls: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Cut a reply as servers do: words; of a call its name first, then its arguments in halves."""
    for number, word in enumerate(text.split(" ") if text else ()):
        yield {"content": f" {word}" if number else word}
    for call in calls:
        arguments = call["function"]["arguments"]
        half = len(arguments) // 2
        yield {"tool_calls": [{**call, "function": {**call["function"], "arguments": ""}}]}
        for part in (arguments[:half], arguments[half:]):
            yield {"tool_calls": [{"index": call["index"], "function": {"arguments": part}}]}


def _finish(calls: list[dict[str, Any]]) -> str:
    return "tool_calls" if calls else "stop"


def _usage(body: dict[str, Any]) -> dict[str, int]:
    sent = sum(len(str(message.get("content") or "").split()) for message in body["messages"])
    return {"prompt_tokens": sent, "completion_tokens": 5, "total_tokens": sent + 5}


@contextmanager
def chat_model(rule: Rule, **options: Any) -> Iterator[ChatCompletions]:
    """Yield the model that the environment names, or else one at a local fake server.

    Args:
        rule: of the fake.
        options: of FakeModel.
    """
    if os.environ.get("OPENAI_BASE_URL") or os.environ.get("OPENAI_API_KEY"):
        yield ChatCompletions()
        return
    with FakeModel(rule, **options) as fake:
        yield ChatCompletions("fake", base_url=fake.url, api_key="")
