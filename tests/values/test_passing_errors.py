"""Errors that are tried again by default: the table of the how-to, and those of real clients."""

import asyncio
import errno
import http.client
import importlib
import re
import socket
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import httpx
import pytest
import requests
import trustme
import urllib3

from actorgraph import START, MessagesState, RetryPolicy, StateGraph
from actorgraph.types import default_retry_on

PAGE = Path(__file__).parents[2] / "docs/how-to/retries.md"


def rows() -> dict[str, list[tuple[str, bool]]]:
    """Read the errors of each row of the table, and whether each is tried again."""
    found: dict[str, list[tuple[str, bool]]] = {}
    lines = PAGE.read_text("utf-8").partition("| of | tried again |")[2].splitlines()[2:]
    for line in lines:
        if not line.startswith("|"):
            break
        of, again, lasting = line.strip("|").split("|")
        names = [(name, True) for name in re.findall(r"`([^`]+)`", again)]
        found[of.strip()] = names + [(name, False) for name in re.findall(r"`([^`]+)`", lasting)]
    return found


def kind_of(path: str) -> Any:
    module, _, name = path.rpartition(".")
    try:
        found = importlib.import_module(module or "builtins")
    except ImportError:
        pytest.skip(f"{module} is not installed")
    return getattr(found, name)


def error_of(written: str) -> BaseException:
    """Make the error of a cell: a class, and the answer that it reports."""
    path, _, answer = written.partition(" ")
    kind = kind_of(path)
    made: Any = kind.__new__(kind)
    if path == "OSError":
        return OSError(getattr(errno, answer), "no")
    if path.startswith("urllib.error.HTTPError"):
        return urllib.error.HTTPError(
            "http://x", int(answer), "no", http.client.HTTPMessage(), None
        )
    if path == "grpc.RpcError":
        status = getattr(kind_of("grpc.StatusCode"), answer)
        return type("Ended", (kind,), {"code": lambda self: status})()
    if path.endswith("botocore.exceptions.ClientError"):
        status = int(answer) if answer.isdigit() else 400
        error = {"Code": "Other" if answer.isdigit() else answer}
        return kind({"Error": error, "ResponseMetadata": {"HTTPStatusCode": status}}, "Get")
    if answer and path.startswith("smtplib"):
        return kind(int(answer), "no")
    if answer and path.startswith("sqlite3"):
        made.sqlite_errorcode = int(answer)
    elif answer and path.startswith("aiohttp"):
        made.status = int(answer)
    elif answer and path.startswith("nats"):
        made.code = int(answer)
    elif answer:
        made.response = SimpleNamespace(status_code=int(answer), headers={})
    return made


@pytest.mark.parametrize("names", rows().values(), ids=rows())
def test_the_table_of_the_page(names):
    """
    An error that the how-to lists is tried again by default, or is not, as it says there; alone
    and in a group.
    """
    for written, again in names:
        error = error_of(written)

        assert default_retry_on(error) is again, written
        if isinstance(error, Exception):
            group = ExceptionGroup("several", [error, TimeoutError()])
            assert default_retry_on(group) is again, written


def test_the_table_is_read():
    """
    The table has rows of each kind.
    """
    found = [name for names in rows().values() for name in names]

    assert {again for _, again in found} == {True, False}
    assert len(found) > 150


@pytest.mark.parametrize("status", [400, 429, 500])
@pytest.mark.parametrize(("said", "again"), [("true", True), ("false", False), ("", None)])
def test_a_server_says_whether_to_try_again(status, said, again):
    """
    A header `x-should-retry` of an answer counts more than its status.
    """
    headers = {"x-should-retry": said} if said else {}
    answer = httpx.Response(status, headers=headers, request=httpx.Request("GET", "http://x"))
    error = httpx.HTTPStatusError("no", request=answer.request, response=answer)

    assert default_retry_on(error) is (status in {429, 500} if again is None else again)


def test_a_quota_that_is_used_up_does_not_pass():
    """
    A 429 whose code is `insufficient_quota` is not tried again, unlike any other 429.
    """
    openai: Any = pytest.importorskip("openai", reason="another client")
    answer = httpx.Response(429, request=httpx.Request("POST", "http://x"))
    codes = {"insufficient_quota": False, "rate_limit_exceeded": True, None: True}

    for code, again in codes.items():
        error = openai.RateLimitError("no", response=answer, body={"code": code})
        assert default_retry_on(error) is again, code


@pytest.mark.parametrize("name", ["ConnectionError", "TimeoutError", "ValueError"])
def test_a_subclass_of_a_program_counts_as_its_base(name):
    """
    A class derived from a listed one is judged as that.
    """
    base = kind_of(name)

    assert default_retry_on(type("Mine", (base,), {})()) is default_retry_on(base())


def test_a_passing_kind_counts_beside_a_mistake():
    """
    An error that is a `ConnectionError` besides is tried again, in whichever order its bases are.
    """
    assert default_retry_on(type("Mine", (RuntimeError, ConnectionError), {})())
    assert default_retry_on(type("Mine", (TimeoutError, ValueError), {})())


@contextmanager
def closing_server() -> Iterator[int]:
    """A server that hangs up on each connection; its port."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    server.accept()[0].close()
                except OSError:
                    return

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


@contextmanager
def stranger() -> Iterator[int]:
    """A TLS server with the certificate of an authority that clients don't know; its port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1", "localhost").configure_cert(context)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    with server.accept()[0] as plain:
                        context.wrap_socket(plain, server_side=True).close()
                except ssl.SSLError:
                    continue
                except OSError:
                    return

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def by_aiohttp(address: str) -> None:
    aiohttp: Any = pytest.importorskip("aiohttp", reason="another client")

    async def ask() -> None:
        async with aiohttp.ClientSession() as session, session.get(address):
            pass

    asyncio.run(ask())


def by_anyio(backend: str) -> Callable[[str], None]:
    def ask(address: str) -> None:
        async def main() -> None:
            async with httpx.AsyncClient() as client:
                await client.get(address)

        anyio.run(main, backend=backend)

    return ask


def by_stream(backend: str) -> Callable[[str], None]:
    def ask(address: str) -> None:
        url = httpx.URL(address)

        async def main() -> None:
            tls = url.scheme == "https"
            stream = await anyio.connect_tcp(str(url.host), url.port or 0, tls=tls)
            async with stream:
                await stream.receive()

        anyio.run(main, backend=backend)

    return ask


def by_urllib3(address: str) -> None:
    with urllib3.PoolManager(retries=1) as pool:
        pool.request("GET", address)


def by_http_client(address: str) -> None:
    url = httpx.URL(address)
    kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
    connection = kind(url.host, url.port)
    try:
        connection.request("GET", "/")
        connection.getresponse()
    finally:
        connection.close()


def by_openai(address: str) -> None:
    openai: Any = pytest.importorskip("openai", reason="another client")
    with openai.OpenAI(base_url=address, api_key="k", max_retries=0) as client:
        client.models.list()


CLIENTS: dict[str, Callable[[str], Any]] = {
    "httpx": httpx.get,
    "httpx on asyncio": by_anyio("asyncio"),
    "httpx on trio": by_anyio("trio"),
    "anyio on asyncio": by_stream("asyncio"),
    "anyio on trio": by_stream("trio"),
    "requests": requests.get,
    "urllib": urllib.request.urlopen,
    "urllib3": by_urllib3,
    "http.client": by_http_client,
    "aiohttp": by_aiohttp,
    "openai": by_openai,
}


def raised(call: Callable[[str], Any], address: str) -> Exception:
    try:
        call(address)
    except Exception as error:  # noqa: BLE001 - it is what is judged
        return error
    raise AssertionError("nothing was raised")


@pytest.mark.parametrize("call", CLIENTS.values(), ids=CLIENTS)
class TestClients:
    def test_a_refused_connection_and_one_that_ends(self, call):
        """
        A closed port and a server that hangs up are tried again, by each client;
        also by a name with several addresses.
        """
        with closing_server() as port:
            ends = raised(call, f"http://127.0.0.1:{port}/")
        refused = raised(call, f"http://127.0.0.1:{port}/")
        named = raised(call, f"http://localhost:{port}/")

        assert [default_retry_on(error) for error in (ends, refused, named)] == [True] * 3

    def test_a_refused_certificate(self, call):
        """
        A certificate of an unknown authority is not tried again, however the client wraps it.
        """
        with stranger() as port:
            error = raised(call, f"https://127.0.0.1:{port}/")

        assert not default_retry_on(error)


def late() -> None:
    async def wait() -> None:
        async with asyncio.timeout(0):
            await asyncio.Event().wait()

    asyncio.run(wait())


def waited() -> None:
    async def wait() -> None:
        await asyncio.wait_for(asyncio.Event().wait(), 0)

    asyncio.run(wait())


@pytest.mark.parametrize("call", [late, waited, lambda: anyio.run(anyio_late)])
def test_a_time_limit_in_a_node_is_tried_three_times(call):
    """
    A node whose own time limit passes is called three times by `RetryPolicy()`.
    """
    tries: list[int] = []

    def node(_: Any) -> None:
        tries.append(1)
        call()

    policy = RetryPolicy(initial_interval=0, jitter=False)
    graph = StateGraph(MessagesState).add_node("node", node, retry_policy=policy)

    with pytest.raises(TimeoutError):
        graph.add_edge(START, "node").compile().invoke({"messages": []})

    assert len(tries) == 3


async def anyio_late() -> None:
    with anyio.fail_after(0):
        await anyio.sleep_forever()
