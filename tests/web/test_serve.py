"""serve(): whom it lets in, and what it says of that."""

import signal
import warnings

import anyio
import pytest

from actorgraph import ActorSystem, InMemorySaver, InvalidConfigError
from actorgraph.errors import UnsafeSettingWarning
from actorgraph.web import serve
from actorgraph.web.app import is_local
from tests.support.gates import PATIENCE_S
from tests.web.apps import GRAPHS

LOCAL = ["127.0.0.1:0", "127.8.9.1:80", "localhost:80", "localhost", "[::1]:80", "unix:/tmp/a.sock"]
PUBLIC = [
    *("0.0.0.0:80", "[::]:80", "192.168.1.2:80", "10.0.0.1", "[fe80::1]:80"),
    *(":80", "example.org:80", "localhost.example.org:80", "fd://3", "::1", ""),
]


def system() -> ActorSystem:
    saver = InMemorySaver()
    return ActorSystem({"log": GRAPHS["log"].compile(checkpointer=saver)}, saver=saver)


async def begin(**options) -> None:
    """Serve until the server listens for signals, then send it one."""
    before = signal.getsignal(signal.SIGTERM)
    with anyio.fail_after(PATIENCE_S):
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: serve(system(), **options))
            while signal.getsignal(signal.SIGTERM) == before:
                await anyio.lowlevel.checkpoint()
            signal.raise_signal(signal.SIGTERM)


class TestWithoutRules:
    @pytest.mark.parametrize("place", PUBLIC)
    async def test_other_machines_are_not_served(self, place):
        """
        Without `authorize` an address that another machine may reach is refused, whichever of
        several it is, and the error says what any client could do.
        """
        for bind in (place, ["127.0.0.1:0", place]):
            with pytest.raises(InvalidConfigError, match="remove every thread") as refused:
                await serve(system(), bind=bind)
            assert "allow_anyone=True" in refused.value.do

    async def test_this_machine_is_served_with_a_warning(self):
        """
        On an address of this machine alone it serves, and warns of the risk at the start.
        """
        with pytest.warns(UnsafeSettingWarning, match="remove every thread"):
            await begin(bind="127.0.0.1:0")

    @pytest.mark.parametrize(
        "options", [{"allow_anyone": True}, {"authorize": lambda *_: True}], ids=["said", "rules"]
    )
    async def test_allow_anyone_serves_without_a_warning(self, options):
        """
        With `allow_anyone=True`, or with rules, it serves on any address without a word.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("error", UnsafeSettingWarning)
            await begin(bind="0.0.0.0:0", **options)


@pytest.mark.parametrize("place", LOCAL)
def test_addresses_of_this_machine(place):
    """
    Loopback addresses, localhost and Unix sockets are this machine's own.
    """
    assert is_local(place)
