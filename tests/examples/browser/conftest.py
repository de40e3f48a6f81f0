"""The chat of the examples in a process of its own, and a page of a real Chromium."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import httpx
import pytest

from tests.studio.browser.conftest import WAIT_S, Watched, chromium, free_port
from tests.support.source_files import ROOT

__all__ = ["chromium"]


class ChatServer:
    """`python -m chat` over a file, which can be killed and started again."""

    def __init__(self, database, *options):
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.command = [sys.executable, "-m", "chat", "--db", str(database), *options]
        self.process = None

    def start(self):
        path = os.pathsep.join([str(ROOT), str(ROOT / "examples")])
        self.process = subprocess.Popen(
            [*self.command, "--port", str(self.port)],
            env={**os.environ, "PYTHONPATH": path},
            stdout=subprocess.DEVNULL,
        )
        end = time.monotonic() + 3 * WAIT_S
        while True:
            try:
                return httpx.get(f"{self.url}/api/users")
            except httpx.TransportError:
                assert time.monotonic() < end, "the chat doesn't answer"
                assert self.process.poll() is None, "the chat has ended"
                time.sleep(0.05)

    def stop(self, number=signal.SIGKILL):
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)
        if self.process is not None:
            self.process.wait(2 * WAIT_S)


@contextmanager
def chat_server(folder, *options):
    server = ChatServer(folder / "chat.db", *options)
    try:
        server.start()
        yield server
    finally:
        server.stop()


@contextmanager
def chat_page(chromium, server, user="ada", **options):
    """A page in which a user has logged in."""
    context = chromium.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
    view = Watched(context.new_page(), server)
    view.page.set_default_timeout(3 * WAIT_S * 1000)
    try:
        page = view.open("/")
        if user:
            page.click(f"#users >> text={user}")
            page.wait_for_selector("#text")
        yield view
    finally:
        context.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """
    One server for the tests of a file that don't kill it.
    """
    with chat_server(tmp_path_factory.mktemp("chat"), "--word-s", "0.02") as made:
        yield made


@pytest.fixture
def view(chromium, server):
    """
    A page of a logged-in user; at the end it has asked its server alone, and complained of nothing.
    """
    with chat_page(chromium, server) as made:
        yield made
        made.finish()
