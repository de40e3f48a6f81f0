"""Requests to a server of Chat Completions: one `POST`, its answer object by object, its errors."""

import re
from codecs import BOM_UTF8
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import msgspec

from actorgraph.errors import MissingExtraError, ModelError, ModelUnavailableError
from actorgraph.internals import connection_text

ERROR_TEXT_MAX = 500
"""Characters of a server's message in an error."""


@dataclass(frozen=True, slots=True)
class ModelServer:
    """The address of a model, and how to reach it.

    Attributes:
        url: up to `/v1`.
        model: its name, for errors.
        key: a bearer token, or "".
        timeout_s: seconds to wait for the next bytes.
        client: the program's `httpx.AsyncClient`; None: one per request.
    """

    url: str
    model: str
    key: str = field(repr=False)
    timeout_s: float
    client: Any

    async def answers(self, body: bytes) -> AsyncGenerator[Any, None]:
        """Send a request; iterate over the objects of its answer.

        Raises:
            ModelUnavailableError, ModelError, MissingExtraError: as `ainvoke`.
        """
        httpx, trusted = await _http()
        headers = {"content-type": "application/json"}
        if self.key:
            headers["authorization"] = f"Bearer {self.key}"
        client = self.client or httpx.AsyncClient(verify=trusted, timeout=self.timeout_s)
        url = f"{self.url}/chat/completions"
        try:
            async with client.stream("POST", url, content=body, headers=headers) as response:
                if response.status_code != 200:
                    raise self._refused(response, await response.aread())
                if "event-stream" not in response.headers.get("content-type", ""):
                    yield msgspec.json.decode(await response.aread())
                    return
                pieces, lines = response.aiter_bytes(), EventLines()
                try:
                    async for piece in pieces:
                        for number, data in enumerate(lines.data(piece)):
                            if number:  # only the first of these was waited for
                                await anyio.lowlevel.checkpoint()
                            yield msgspec.json.decode(data)
                    for data in lines.data(b"\n"):
                        yield msgspec.json.decode(data)
                finally:
                    await _end(response, pieces)
        except httpx.HTTPError as error:
            raise self.unavailable(connection_text(error)) from error
        except msgspec.DecodeError as error:
            raise self.unavailable(f"the answer is not JSON: {error}") from error
        finally:
            if client is not self.client:
                with anyio.CancelScope(shield=True):
                    await client.aclose()

    def _refused(self, response: Any, body: bytes) -> ModelError:
        """Make the error of a response that isn't 200."""
        status, headers = response.status_code, dict(response.headers)
        what = f"HTTP {status} {response.reason_phrase}: {message_of(body)}"
        if status in (408, 409, 429) or status >= 500:
            return self.unavailable(what, status, headers)
        advice = {401: "check OPENAI_API_KEY or api_key=", 404: "check the base_url and the model"}
        do = advice.get(status, "correct the request, or the parameters of ChatCompletions")
        return ModelError(self._about(what), do=do, status_code=status, headers=headers)

    def unavailable(
        self, what: str, status: int | None = None, headers: Mapping[str, str] | None = None
    ) -> ModelUnavailableError:
        """Make the error of a failure that another attempt may not meet."""
        do = "try again, or give the node a retry_policy; check that the server runs"
        return ModelUnavailableError(self._about(what), do=do, status_code=status, headers=headers)

    def _about(self, what: str) -> str:
        """Name the model and its address; a key that a server has echoed is left out."""
        hidden = what.replace(self.key, "[redacted]") if self.key else what
        return f"model {self.model!r} at {self.url}: {hidden}"


class EventLines:
    """The data of server-sent events, from a stream of bytes.

    Lines end at CR, LF or CRLF alone (WHATWG HTML, "Interpreting an event stream");
    `str.splitlines` would end them at U+2028 too, which JSON may contain as it is.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._at_start = True

    def data(self, piece: bytes) -> list[bytes]:
        """Add bytes; returns the data of the lines that they complete, without "[DONE]"."""
        piece = self._rest + piece
        if self._at_start and len(piece) >= len(BOM_UTF8):
            piece, self._at_start = piece.removeprefix(BOM_UTF8), False
        held = piece.endswith(b"\r")  # the LF of a CRLF may come with the next piece
        *lines, rest = _LINE_END.split(piece[:-1] if held else piece)
        self._rest = rest + b"\r" if held else rest
        found = (line.removeprefix(b"data:").strip() for line in lines if line[:5] == b"data:")
        return [data for data in found if data != b"[DONE]"]


_LINE_END = re.compile(rb"\r\n|\n|\r")


def message_of(body: Any) -> str:
    """Return the server's own words about an error."""
    try:
        data = msgspec.json.decode(body) if isinstance(body, bytes) else body
        found = data["error"]
        text = found if isinstance(found, str) else str(found["message"])
    except (msgspec.DecodeError, KeyError, TypeError, IndexError):
        text = body.decode("utf-8", "replace") if isinstance(body, bytes) else str(body)
    return text[:ERROR_TEXT_MAX].strip() or "(no text)"


async def _end(response: Any, pieces: AsyncIterator[bytes]) -> None:
    """Close a response, and end the iterators over it, which lie inside each other.

    On trio an iterator that is left before its end causes a ResourceWarning; reading a closed
    response ends all of them.
    """
    with anyio.CancelScope(shield=True):
        await response.aclose()
        with suppress(Exception):
            async for _ in pieces:
                pass


async def _http() -> tuple[Any, Any]:
    """Httpx and the TLS settings; the first call gets them in a thread."""
    if _http_client.cache_info().currsize:
        return _http_client()
    return await anyio.to_thread.run_sync(_http_client)


@lru_cache(maxsize=1)
def _http_client() -> tuple[Any, Any]:
    """Import httpx and load the TLS settings, which takes tens of milliseconds."""
    try:
        import httpx
    except ImportError as error:
        raise MissingExtraError(
            "ChatCompletions needs the package httpx", do="pip install 'actorgraph[openai]'"
        ) from error
    return httpx, httpx.create_ssl_context()
