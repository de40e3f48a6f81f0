"""Read a request's body within limits of size and time, and decode it."""

from contextlib import aclosing
from typing import Any

import anyio
import msgspec
from starlette.requests import Request

from actorgraph.web.limits import Limits, excess
from actorgraph.web.problems import TooLarge, TooSlow, Unprocessable, Unsupported


async def body_of(request: Request, kind: Any, limits: Limits) -> Any:
    """Read and decode the body; an empty one is `{}`.

    Raises:
        Unsupported: it is compressed, or its content type is not JSON.
        TooLarge: it is longer than the limit.
        TooSlow: it took longer than the limit.
        Unprocessable: it is not valid JSON, nested too deeply, or doesn't fit the type.
    """
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise Unsupported("Compressed bodies are not supported")
    try:
        with anyio.fail_after(limits.body_s):
            raw = await _bytes(request, limits.body_bytes)
    except TimeoutError:
        raise TooSlow(f"the body took more than {limits.body_s:g} s", closes=True) from None
    if raw and not _is_json(request.headers.get("content-type", "")):
        # Protects against CSRF: browsers send application/json to another site only after a CORS
        # preflight, and any other type without one.
        raise Unsupported("The body must be JSON with Content-Type: application/json")
    try:
        data = msgspec.json.decode(raw or b"{}")
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise Unprocessable(f"the body is not valid JSON: {error}") from error
    if (what := excess(data, limits)) is not None:
        raise Unprocessable(what)
    return convert_to(data, kind, "the body", strict=True)


async def _bytes(request: Request, most: int) -> bytes:
    said = request.headers.get("content-length", "0")
    too_large = f"the body has more than {most} bytes"
    if said.isascii() and said.isdecimal() and int(said[:20]) > most:
        raise TooLarge(too_large, closes=True)
    raw = bytearray()
    async with aclosing(request.stream()) as parts:
        async for part in parts:
            raw += part
            if len(raw) > most:
                raise TooLarge(too_large, closes=True)
    return bytes(raw)


def _is_json(content_type: str) -> bool:
    kind = content_type.partition(";")[0].strip().lower()
    return kind == "application/json" or kind.endswith("+json")


def convert_to(data: Any, kind: Any, what: str, *, strict: bool = False) -> Any:
    """Convert data to a type.

    Raises:
        Unprocessable: it doesn't fit; the text names the place.
    """
    try:
        return msgspec.convert(data, kind, strict=strict)
    except (msgspec.ValidationError, ValueError, OverflowError) as error:
        raise Unprocessable(f"{what} is invalid: {error}") from error
