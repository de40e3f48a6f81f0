"""NATSDispatcher beside a server whose streams another client changes."""

import asyncio
import os

import anyio
import nats
import pytest

from actorgraph import InMemorySaver, InvalidConfigError
from actorgraph.dispatch import NATSDispatcher
from actorgraph.values.dispatch import Hint
from tests.dispatch.places import nats_server
from tests.support.gates import PATIENCE_S
from tests.support.tcp_proxy import proxied


@pytest.fixture(scope="module")
def address():
    """
    The address of a NATS server.
    """
    with nats_server() as found:
        if found is None:
            pytest.skip("nats-server is not installed")
        yield found


@pytest.fixture
def stream():
    """
    The name of a new stream.
    """
    return f"n{os.urandom(6).hex()}"


async def of_server(address, work):
    """Call a function with JetStream, in an asyncio loop of its own."""

    async def main():
        client = await nats.connect(address)
        try:
            return await work(client.jetstream())
        finally:
            await client.close()

    return await anyio.to_thread.run_sync(asyncio.run, main())


async def test_a_removed_stream_is_made_anew(address, stream):
    """
    When another client removes the stream of hints, the next hint makes it again, and is taken.
    """
    dispatcher = NATSDispatcher(address, stream=stream, again_s=0.5)
    link = await dispatcher.open(InMemorySaver(), lambda _: None)
    try:
        await of_server(address, lambda js: js.delete_stream(stream))
        sent = Hint(os.urandom(16), "g")
        await link.announce([sent])
        with anyio.fail_after(PATIENCE_S):
            (found,) = await link.take(["g"], 1)
        assert found.run == sent.run
    finally:
        await link.close()


async def test_a_stream_with_other_settings_is_changed(address, stream):
    """
    Processes with other seconds of `again_s` use the same stream.
    """
    links = [
        await NATSDispatcher(address, stream=stream, again_s=s).open(InMemorySaver(), print)
        for s in (5.0, 9.0)
    ]
    sent = Hint(os.urandom(16), "g")
    await links[0].announce([sent])
    with anyio.fail_after(PATIENCE_S):
        (found,) = await links[1].take(["g"], 1)
    for link in links:
        await link.close()
    assert found.run == sent.run


async def test_a_stream_of_others_is_left_alone(address, stream):
    """
    A stream of that name with other subjects is named in the error, and is not changed.
    """
    await of_server(address, lambda js: js.add_stream(name=stream, subjects=[f"{stream}.orders"]))
    with pytest.raises(InvalidConfigError, match=f"{stream}.*orders"):
        await NATSDispatcher(address, stream=stream).open(InMemorySaver(), print)
    found = await of_server(address, lambda js: js.stream_info(stream))
    assert found.config.subjects == [f"{stream}.orders"]


async def test_an_open_link_hears_news(address, stream):
    """
    A link subscribes to news before the request whose answer opens it.
    """
    with proxied(int(address.rpartition(":")[2])) as proxy:
        proxy.requests = bytearray()
        at = f"nats://127.0.0.1:{proxy.port}"
        link = await NATSDispatcher(at, stream=stream).open(InMemorySaver(), print)
        await link.close()
    news, request = f"SUB {stream}.news", f"STREAM.CREATE.{stream}"
    assert 0 <= proxy.requests.find(news.encode()) < proxy.requests.find(request.encode())
