"""The chat of the examples in a process of its own, and a page of a real Chromium."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager, suppress

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

    def pace(self, word_s):
        """Set the seconds between two words from the next start on."""
        self.command[self.command.index("--word-s") + 1] = str(word_s)

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


class Line:
    """A line from a page to a server, which can be cut while both go on."""

    def __init__(self, server):
        self._server = server
        self._open = set()
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with suppress(OSError):
            while True:
                ends = (
                    self._listener.accept()[0],
                    socket.create_connection(("127.0.0.1", self._server.port)),
                )
                with self._lock:
                    self._open.update(ends)
                for a, b in (ends, ends[::-1]):
                    threading.Thread(target=self._carry, args=(a, b), daemon=True).start()

    def _carry(self, source, target):
        with suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        for end in (source, target):
            self._hang_up(end)

    def _hang_up(self, end):
        with suppress(OSError):  # the other side may have done it
            end.shutdown(socket.SHUT_RDWR)

    def cut(self):
        """End all connections; new ones are accepted."""
        with self._lock:
            ends, self._open = self._open, set()
        for end in ends:
            self._hang_up(end)
            end.close()

    def close(self):
        self._hang_up(self._listener)
        self._listener.close()
        self.cut()


@contextmanager
def line_to(server):
    """A `Line` to a server."""
    with closing(Line(server)) as made:
        yield made


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
