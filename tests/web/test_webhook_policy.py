"""Where webhooks may go, how they are signed, when they are tried again: by tables."""

import hmac
from base64 import b64decode, b64encode
from hashlib import sha256
from ipaddress import ip_address

import pytest

from actorgraph.errors import InvalidConfigError
from actorgraph.web.jobs.webhook_policy import (
    Target,
    WebhookAttempt,
    WebhookPolicy,
    is_public,
    pause_after,
    signed_headers,
    target_of,
)

KEY = b"k" * 32
ANY = WebhookPolicy(["*"], KEY, ports=(443, 8443))


@pytest.mark.parametrize(
    "address",
    [
        *("10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "127.0.0.1", "127.9.9.9"),
        *(
            "0.0.0.0",  # noqa: S104 - an address to refuse
            "0.1.2.3",
            "169.254.169.254",
            "169.254.170.2",
            "100.64.0.1",
            "100.100.100.200",
        ),
        *("168.63.129.16", "192.0.0.192", "192.0.2.1", "198.18.0.1", "224.0.0.1", "240.0.0.1"),
        *("255.255.255.255", "192.88.99.1"),
        *("::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "ff02::1", "fec0::1"),
        *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1"),
        *(
            "64:ff9b::7f00:1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "2002:a00:1::1",
        ),
        *("2001:db8::1", "2001:0:7f00:1::1", "100::1"),
    ],
)
def test_addresses_that_are_not_public(address):
    """
    No private, loopback, link-local or metadata address counts as public, in no form.
    """
    assert not is_public(ip_address(address))


@pytest.mark.parametrize(
    "address",
    ["8.8.8.8", "1.1.1.1", "2606:4700:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"],
)
def test_public_addresses(address):
    """
    An address of the public internet is allowed.
    """
    assert is_public(ip_address(address))


@pytest.mark.parametrize(
    "url",
    [
        *("http://a.example/", "ftp://a.example/", "//a.example/", "a.example", "", "https://"),
        *("https://user@a.example/", "https://u:p@a.example/", "https://a.example/#x"),
        *("https://a.example:80/", "https://a.example:99999/", "https://a.example:x/"),
        *("https://127.0.0.1/", "https://[::1]/", "https://[::ffff:10.0.0.1]/"),
        *("https://2130706433/", "https://0177.0.0.1/", "https://0x7f.0.0.1/", "https://127.1/"),
        *("https://0x7f000001/", "https://a.0x7f/", "https://127.0.0.1./", "https://0/"),
        *("https://a.example/\r\nX: y", "https://a.example/ HTTP/1.1", "https://a.example/\tx"),
        *("https://a\\@b.example/", "https://ä.example/", "https://a..example/", "https://-a/"),
        *("https://a.example%00.b/", "https://a.example/" + "x" * 2048, "https://[fe80::1%25a]/"),
    ],
)
def test_urls_that_are_refused(url):
    """
    A URL that could lead elsewhere than it seems, or split a header, is refused at the start.
    """
    with pytest.raises(InvalidConfigError, match="webhook"):
        target_of(url, ANY)


@pytest.mark.parametrize(
    ("hosts", "url", "allowed"),
    [
        (["hooks.example.com"], "https://hooks.example.com/x", True),
        (["hooks.example.com"], "https://HOOKS.example.com./x", True),
        (["hooks.example.com"], "https://evil-hooks.example.com/", False),
        (["hooks.example.com"], "https://hooks.example.com.evil.org/", False),
        (["*.example.com"], "https://a.b.example.com/", True),
        (["*.example.com"], "https://example.com/", False),
        (["*.example.com"], "https://aexample.com/", False),
        (["example.com"], "https://8.8.8.8/", False),
    ],
)
def test_the_list_of_hosts(hosts, url, allowed):
    """
    A host is allowed by its whole name, or by a star and the names above it.
    """
    policy = WebhookPolicy(hosts, KEY)
    if allowed:
        assert target_of(url, policy).host
    else:
        with pytest.raises(InvalidConfigError, match="not allowed"):
            target_of(url, policy)


def test_a_url_is_taken_apart():
    """
    Host, port, path and query are those of the URL, and the header's host has an unusual port.
    """
    assert target_of("https://A.example:8443?x=1", ANY) == Target(
        "https", "a.example", 8443, "/?x=1"
    )
    assert target_of("https://a.example:8443", ANY).authority == "a.example:8443"
    assert target_of("https://[2606:4700::1]/", ANY).authority == "[2606:4700::1]"


def test_the_signature_is_that_of_standard_webhooks():
    """
    The signature is an HMAC over id, time and body, which the specification's example has too.
    """
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # noqa: S105 - of the specification
    key = WebhookPolicy(["*"], secret).key
    body = b'{"test": 2432232314}'
    headers = signed_headers(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body)
    signed = b"msg_p5jXN8AQM9LWM0D4loKWxJek.1614265330." + body

    assert key == b64decode(secret.removeprefix("whsec_"))
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert (
        headers["webhook-signature"]
        == "v1," + b64encode(hmac.new(key, signed, sha256).digest()).decode()
    )


@pytest.mark.parametrize(
    ("attempt", "count", "pause_s"),
    [
        (WebhookAttempt(500), 1, 2),
        (WebhookAttempt(None, "refused"), 2, 8),
        (WebhookAttempt(302), 3, 32),
        (WebhookAttempt(429), 7, 3600),
        (WebhookAttempt(500), 8, None),
        (WebhookAttempt(410), 1, None),
        (WebhookAttempt(None, "private", forbidden=True), 1, None),
    ],
)
def test_pauses(attempt, count, pause_s):
    """
    Pauses grow until the last attempt; a receiver that is gone, or forbidden, gets no other one.
    """
    assert pause_after(attempt, count, ANY) == pause_s


@pytest.mark.parametrize(
    "wrong",
    [
        {"hosts": []},
        {"hosts": "example.com"},
        {"secret": b"short"},
        {"secret": "whsec_???"},
        {"schemes": ("gopher",)},
        {"attempts": 0},
        {"timeout_s": float("nan")},
    ],
)
def test_bad_policies_are_refused(wrong):
    """
    A policy that allows nothing, or signs with nothing, is refused.
    """
    with pytest.raises(InvalidConfigError, match="WebhookPolicy"):
        WebhookPolicy(**{"hosts": ["*"], "secret": KEY, **wrong})
