"""Rules of webhooks: allowed addresses, signatures, pauses between attempts. No I/O.

Signatures are those of the specification Standard Webhooks 1.0: HMAC-SHA256, base64, over
"id.timestamp.body". So the libraries that exist for it check them.
"""

import hmac
import ipaddress
import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Sequence
from hashlib import sha256
from urllib.parse import urlsplit

from msgspec import Struct

from actorgraph.errors import InvalidConfigError
from actorgraph.internals import checked_seconds

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_NAME = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)(\.(?!-)[a-z0-9_-]{1,63}(?<!-))*")
_NUMBER = re.compile(r"(0x[0-9a-f]*|[0-9]+)")
_SECRET_MIN = 16


class WebhookPolicy(Struct, frozen=True):
    """The addresses that webhooks may be sent to, their signature and their attempts.

    Attributes:
        hosts: names that are allowed, such as "hooks.example.com"; "*.example.com" allows all names
            below it, "*" every name.
        secret: signs each webhook; at least 16 bytes, or text "whsec_" and base64.
        schemes: allowed; default https alone.
        ports: allowed; default 443 alone.
        private: whether addresses that are not public may be reached: private, loopback,
            link-local and metadata addresses. Default False.
        timeout_s: seconds that one attempt may take; default 10.
        attempts: how often one is tried at most; default 8, which takes about two hours.
        pause_s: seconds before the second attempt; each later pause is four times as long.
        pause_max_s: the longest pause; default an hour.
        body_bytes: a longer body is sent without the run's values; default 1 MiB.
        pending_max: webhooks that may be stored and not sent yet; beyond that runs with one are
            refused (429). Default 10,000.
        concurrency: attempts at the same time; default 20.
    Raises:
        InvalidConfigError: an argument is out of range.
    """

    hosts: Sequence[str]
    secret: bytes | str
    schemes: Sequence[str] = ("https",)
    ports: Sequence[int] = (443,)
    private: bool = False
    timeout_s: float = 10.0
    attempts: int = 8
    pause_s: float = 2.0
    pause_max_s: float = 3600.0
    body_bytes: int = 1024 * 1024
    pending_max: int = 10_000
    concurrency: int = 20

    def __post_init__(self) -> None:
        """Check the arguments."""
        if isinstance(self.hosts, str) or not self.hosts:
            raise InvalidConfigError(
                f"WebhookPolicy: hosts must be a list of names, got {self.hosts!r}",
                do='use e.g. hosts=["hooks.example.com"]',
            )
        if not set(self.schemes) <= {"https", "http"}:
            raise InvalidConfigError(
                f"WebhookPolicy: unknown scheme in {self.schemes!r}", do='use "https" or "http"'
            )
        for name in ("timeout_s", "pause_s", "pause_max_s"):
            checked_seconds(f"WebhookPolicy: {name}", getattr(self, name))
        for name in ("attempts", "body_bytes", "pending_max", "concurrency"):
            _check_positive(name, getattr(self, name))
        if len(self.key) < _SECRET_MIN:
            raise InvalidConfigError(
                f"WebhookPolicy: the secret has fewer than {_SECRET_MIN} bytes",
                do="use secrets.token_bytes(32), and keep it",
            )

    @property
    def key(self) -> bytes:
        """The bytes of the secret."""
        if isinstance(self.secret, bytes):
            return self.secret
        if not self.secret.startswith("whsec_"):
            return self.secret.encode()
        try:
            return b64decode(self.secret.removeprefix("whsec_"), validate=True)
        except Base64Error as error:
            raise InvalidConfigError(
                "WebhookPolicy: the secret after 'whsec_' is not base64",
                do="use base64, or bytes",
            ) from error


def _check_positive(name: str, value: float) -> None:
    if type(value) is not int or not value > 0:
        raise InvalidConfigError(
            f"WebhookPolicy: {name} must be > 0, got {value!r}", do="use a number above 0"
        )


class Target(Struct, frozen=True):
    """A webhook's address, taken apart.

    Attributes:
        host: lower case; an IPv6 address without brackets.
        path: with the query.
    """

    scheme: str
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        """The value of the header `Host`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        usual = {"https": 443, "http": 80}[self.scheme]
        return host if self.port == usual else f"{host}:{self.port}"


def target_of(url: str, policy: WebhookPolicy) -> Target:
    """Take a webhook's URL apart and check all of it that is known before its name is resolved.

    Raises:
        InvalidConfigError: it isn't a URL that the policy allows.
    """
    if not (url.isascii() and url.isprintable()) or set(url) & set(' \\"<>') or len(url) > 2048:
        raise _refusal("webhook must be an ASCII URL without spaces, of at most 2048 bytes")
    try:
        parts = urlsplit(url)
        port, host = parts.port, (parts.hostname or "").rstrip(".")
    except ValueError as error:
        raise _refusal(f"webhook is not a valid URL: {error}") from error
    if parts.scheme not in policy.schemes:
        raise _refusal(f"webhook must begin with {' or '.join(policy.schemes)}://")
    if "@" in parts.netloc or parts.fragment:
        raise _refusal("webhook must have no user name, password or fragment")
    if port is None:
        port = 443 if parts.scheme == "https" else 80
    if port not in policy.ports:
        raise _refusal(f"webhook's port {port} is not allowed")
    literal = _literal(host)
    if literal is not None and not policy.private and not is_public(literal):
        raise _refusal("webhook's address is not public")
    if not any(_matches(host, pattern.lower()) for pattern in policy.hosts):
        raise _refusal(f"webhook's host {host!r} is not allowed")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(parts.scheme, host, port, path)


def _literal(host: str) -> Address | None:
    """Return the address that a host is; None for a name.

    Raises:
        InvalidConfigError: it is neither a name nor an address in its usual form. Numbers such as
            "2130706433" and "0177.0.0.1" are addresses for some resolvers.
    """
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        last = host.rpartition(".")[2]
        if _NAME.fullmatch(host) is None or _NUMBER.fullmatch(last) or len(host) > 253:
            raise _refusal(f"webhook's host {host!r} is not a name or an address") from None
        return None


def _matches(host: str, pattern: str) -> bool:
    if pattern.startswith("*."):
        return host.endswith(pattern[1:])
    return pattern in ("*", host)


_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_SPECIAL = (
    ipaddress.ip_network("100.64.0.0/10"),
    ipaddress.ip_network("192.0.0.0/24"),  # Oracle's metadata among them
    ipaddress.ip_network("192.88.99.0/24"),
    ipaddress.ip_network("168.63.129.16/32"),  # Azure's metadata and DNS
)


def is_public(address: Address) -> bool:
    """Whether an address is one of the public internet, also where it contains an IPv4 address."""
    if isinstance(address, ipaddress.IPv6Address):
        if address.scope_id is not None or address.is_site_local:
            return False
        inner = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
        if address in _NAT64 or int(address) >> 32 == 0:  # the latter: "IPv4-compatible"
            inner.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
        found = [one for one in inner if one is not None]
        if found:
            return all(map(is_public, found))
    elif any(address in network for network in _SPECIAL):
        return False
    return address.is_global and not (
        address.is_multicast or address.is_reserved or address.is_unspecified
    )


def signed_headers(key: bytes, identifier: str, timestamp: int, body: bytes) -> dict[str, str]:
    """Return the headers that identify and sign a webhook.

    Args:
        identifier: the same for each attempt.
        timestamp: seconds since 1970.
    """
    signed = f"{identifier}.{timestamp}.".encode() + body
    digest = b64encode(hmac.new(key, signed, sha256).digest()).decode()
    return {
        "webhook-id": identifier,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": f"v1,{digest}",
    }


class WebhookAttempt(Struct, frozen=True):
    """The result of one attempt.

    Attributes:
        status: HTTP status; None without a response.
        error: why the response is missing; for the log.
        forbidden: whether the policy forbids the address that the name resolves to.
    """

    status: int | None
    error: str = ""
    forbidden: bool = False


def pause_after(attempt: WebhookAttempt, count: int, policy: WebhookPolicy) -> float | None:
    """Return the seconds until the next attempt; None if it is given up.

    Args:
        attempt: failed.
        count: attempts so far.
    """
    if attempt.forbidden or attempt.status == 410 or count >= policy.attempts:
        return None
    return min(policy.pause_s * 4 ** min(count - 1, 20), policy.pause_max_s)


def _refusal(text: str) -> InvalidConfigError:
    return InvalidConfigError(text, do="send a webhook that the server's WebhookPolicy allows")
