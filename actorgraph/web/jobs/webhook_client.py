"""Send one webhook: resolve the name once, check every address, connect to a checked one.

The connection is made to the address and not to the name, so that a second resolution can't lead
elsewhere; TLS checks the certificate against the name. Redirects are not followed, proxies of the
environment are not used, and the response's body is not read.
"""

import ipaddress
import socket
import time
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Any

import anyio

from actorgraph.errors import MissingExtraError
from actorgraph.internals import connection_text
from actorgraph.web.jobs.webhook_policy import (
    Address,
    Target,
    WebhookAttempt,
    WebhookPolicy,
    is_public,
    signed_headers,
)

Resolve = Callable[[str, int], Awaitable[list[Address]]]


async def resolve(host: str, port: int) -> list[Address]:
    """Return the addresses of a host.

    Raises:
        OSError: it can't be resolved.
    """
    found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [ipaddress.ip_address(place[4][0]) for place in found]


def http_client() -> Any:
    """Import the HTTP client.

    Raises:
        MissingExtraError: it isn't installed.
    """
    try:
        import httpx
    except ImportError as error:
        raise MissingExtraError(
            "webhooks need the package httpx", do="pip install 'actorgraph[web]'"
        ) from error
    return httpx


@lru_cache(maxsize=1)
def _trusted() -> Any:
    """Return the TLS settings, which take tens of milliseconds to load."""
    return http_client().create_ssl_context()


async def send(
    target: Target,
    identifier: str,
    body: bytes,
    policy: WebhookPolicy,
    find: Resolve = resolve,
) -> WebhookAttempt:
    """Send a webhook once.

    Args:
        identifier: of the webhook; a receiver that has seen it ignores the request.
        body: JSON.
        find: resolves names.
    """
    httpx = http_client()
    try:
        with anyio.fail_after(policy.timeout_s):
            addresses = await find(target.host, target.port)
            if not addresses:
                return WebhookAttempt(None, f"{target.host} has no address")
            if not policy.private and not all(map(is_public, addresses)):
                error = f"{target.host} has an address that is not public"
                return WebhookAttempt(None, error, forbidden=True)
            signed = signed_headers(policy.key, identifier, int(time.time()), body)
            return WebhookAttempt(await _post(httpx, target, addresses[0], body, signed))
    except TimeoutError:
        return WebhookAttempt(None, f"no response within {policy.timeout_s:g} s")
    except (OSError, ValueError, httpx.HTTPError, httpx.InvalidURL) as error:
        return WebhookAttempt(None, connection_text(error))


async def _post(
    httpx: Any,
    target: Target,
    address: Address,
    body: bytes,
    signed: dict[str, str],
) -> int:
    host = f"[{address}]" if address.version == 6 else str(address)
    headers = {
        "host": target.authority,
        "content-type": "application/json",
        "user-agent": "actorgraph-webhooks",
        **signed,
    }
    options = {"extensions": {"sni_hostname": target.host}} if target.scheme == "https" else {}
    url = f"{target.scheme}://{host}:{target.port}{target.path}"
    async with (
        httpx.AsyncClient(
            verify=_trusted(), trust_env=False, follow_redirects=False, timeout=None
        ) as client,
        client.stream("POST", url, content=body, headers=headers, **options) as response,
    ):
        return response.status_code
