"""Reading a request's body: so many bytes, in so much time, as JSON, of a shape."""

from contextlib import aclosing
from typing import Any

import anyio
import msgspec
from starlette.requests import Request

from actorgraph.web.limits import Limits, exceeds
from actorgraph.web.problems import TooLarge, TooSlow, Unprocessable, Unsupported


async def body_of(request: Request, kind: Any, limits: Limits) -> Any:
    """The body as a type; one without a byte is `{}`.

    Raises:
        Unsupported: it is compressed, or isn't said to be JSON.
        TooLarge, TooSlow: it is longer, or takes longer, than is allowed.
        Unprocessable: it is no JSON, nested too deep, or doesn't fit the type.
    """
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise Unsupported("compressed bodies are not taken; send it as it is")
    try:
        with anyio.fail_after(limits.body_s):
            raw = await _bytes(request, limits.body_bytes)
    except TimeoutError:
        raise TooSlow(f"the body took more than {limits.body_s:g} s", closes=True) from None
    if raw and not _is_json(request.headers.get("content-type", "")):
        # A page of another site can make a browser send anything but this without asking.
        raise Unsupported("the body has to be JSON; send it with Content-Type: application/json")
    try:
        data = msgspec.json.decode(raw or b"{}")
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise Unprocessable(f"the body is no JSON: {error}") from error
    if (what := exceeds(data, limits)) is not None:
        raise Unprocessable(what)
    return converted(data, kind, "the body", strict=True)


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


def converted(data: Any, kind: Any, what: str, *, strict: bool = False) -> Any:
    """Data as a type.

    Raises:
        Unprocessable: it doesn't fit; the text names the place.
    """
    try:
        return msgspec.convert(data, kind, strict=strict)
    except (msgspec.ValidationError, ValueError, OverflowError) as error:
        raise Unprocessable(f"{what} can't be taken: {error}") from error
