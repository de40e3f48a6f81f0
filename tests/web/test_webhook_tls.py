"""TLS of webhooks: a certificate must be of the name in the URL, and of an authority that is known.

Each attempt goes to a real server, whose certificate an authority of the test has signed.
"""

import ipaddress
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from actorgraph.web.jobs import webhook_client
from actorgraph.web.jobs.webhook_client import send
from actorgraph.web.jobs.webhook_policy import WebhookAttempt, target_of
from tests.web.receiver import Receiver, receiving

NAME = "hooks.example"


class Names:
    """The names that clients have asked the server for, by SNI."""

    def __init__(self) -> None:
        self.asked: list[str | None] = []

    def note(self, _: ssl.SSLObject, name: str | None, __: ssl.SSLContext) -> None:
        """Note the name of one connection."""
        self.asked.append(name)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    """An authority that the client does not trust yet."""
    return trustme.CA()


@pytest.fixture(scope="module")
def names() -> Names:
    """The names that the server of this module was asked for."""
    return Names()


@pytest.fixture(scope="module")
def served(authority: trustme.CA, names: Names) -> Iterator[Receiver]:
    """A receiver with a certificate for `NAME` alone."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(NAME).configure_cert(context)
    context.sni_callback = names.note
    with receiving(context) as made:
        yield made


@pytest.fixture
def receiver(served: Receiver, names: Names) -> Receiver:
    """The receiver, which has got nothing yet."""
    served.got.clear()
    names.asked.clear()
    return served


@pytest.fixture(autouse=True)
def settings_as_before() -> Iterator[None]:
    """The client's TLS settings are loaded anew, in this test and after it."""
    webhook_client._trusted.cache_clear()  # noqa: SLF001
    yield
    webhook_client._trusted.cache_clear()  # noqa: SLF001


@pytest.fixture
def known(authority: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The authority is one that this machine trusts."""
    authority.cert_pem.write_to_path(tmp_path / "authority.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))


async def sent(receiver: Receiver, host: str) -> WebhookAttempt:
    """One attempt to a name that resolves to the receiver."""

    async def find(host: str, port: int) -> Any:
        return [ipaddress.ip_address("127.0.0.1")]

    policy = receiver.policy(hosts=["*"], schemes=("https",))
    target = target_of(f"https://{host}:{policy.ports[0]}/hook", policy)
    return await send(target, "id", b"{}", policy, find)


@pytest.mark.usefixtures("known")
class TestKnownAuthority:
    async def test_the_certificate_of_the_name_is_accepted(self, receiver, names):
        """
        The connection goes to the checked address, and asks for the name by SNI and in its header.
        """
        assert await sent(receiver, NAME) == WebhookAttempt(200)
        assert names.asked == [NAME]
        assert receiver.got[0][0]["host"].partition(":")[0] == NAME

    @pytest.mark.parametrize("host", ["other.example", "a.hooks.example", "127.0.0.1"])
    async def test_the_certificate_of_another_name_is_refused(self, receiver, host):
        """
        A server that has only another name's certificate gets no request, and can be tried again.
        """
        made = await sent(receiver, host)

        assert (made.status, made.forbidden, receiver.got) == (None, False, [])
        assert "certificate" in made.error


async def test_an_unknown_authority_is_refused(receiver):
    """
    A certificate that no trusted authority has signed is refused before anything is sent.
    """
    made = await sent(receiver, NAME)

    assert (made.status, receiver.got) == (None, [])
    assert "certificate" in made.error
