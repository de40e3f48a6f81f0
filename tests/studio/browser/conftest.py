"""A server of the studio and a page of a real Chromium; the tests are skipped without one."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager

import httpx
import pytest

from tests.studio.browser.app import TOKEN
from tests.support.source_files import ROOT

FLAGS = (
    *("--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--disable-quic"),
    *("--no-first-run", "--disable-background-networking", "--disable-component-update"),
    "--disable-sync",
)
WAIT_S = 20.0
START_S = 60.0
"""Seconds in which a server begins to answer: a busy machine imports slowly."""


def browser_path():
    """The machine's Chromium, or None."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class StudioServer:
    """The application in a process of its own, which can be killed and started again."""

    def __init__(self, path):
        self.path = str(path)
        self.port = free_port()
        self.process = None

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/studio"

    def start(self):
        command = [sys.executable, "-m", "tests.studio.browser.app", self.path, str(self.port)]
        self.process = subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}
        )
        end = time.monotonic() + START_S
        while True:
            try:
                return httpx.get(f"http://127.0.0.1:{self.port}/studio/static/studio.css")
            except httpx.TransportError:
                assert time.monotonic() < end, "the studio doesn't answer"
                assert self.process.poll() is None, "the studio has ended"
                time.sleep(0.05)

    def kill(self):
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        if self.process is not None:
            self.process.wait(WAIT_S)

    def cpu_s(self):
        """Processor time of the process so far, in seconds."""
        with open(f"/proc/{self.process.pid}/stat") as file:  # noqa: PTH123 - a kernel's file
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def serving(path):
    server = StudioServer(path)
    try:
        server.start()
        yield server
    finally:
        server.kill()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """
    One server for the tests of a file.
    """
    with serving(tmp_path_factory.mktemp("studio") / "runs.db") as made:
        yield made


@pytest.fixture(scope="session")
def chromium():
    """
    The browser, or a skip with the reason.
    """
    path = browser_path()
    if path is None:
        pytest.skip("no Chromium on this machine: apt-get install chromium")
    sync = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with sync.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield browser
        browser.close()


class Watched:
    """A page, with all that it asked for and complained of."""

    def __init__(self, page, server):
        self.page = page
        self.server = server
        self.requests = []
        self.complaints = []
        page.on("request", lambda one: self.requests.append(one.url))
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.set_default_timeout(WAIT_S * 1000)

    def _hear(self, message):
        if message.type in ("error", "warning") and "status of" not in message.text:
            self.complaints.append(message.text)

    def open(self, path):
        self.page.goto(self.server.url + path)
        return self.page

    def start(self, graph, thread_id, given="{}"):
        """Start a thread by the form of the list."""
        page = self.open("/threads")
        page.locator("form[action$='/threads'][method=post] select").select_option(graph)
        page.fill("input[name=thread_id]", thread_id)
        page.fill("textarea[name=input]", given)
        page.click("text=Start >> nth=-1")
        page.wait_for_selector("h1")
        return page

    def finish(self):
        """Check that the page asked only its server, and that its policy refused nothing."""
        foreign = [url for url in self.requests if not url.startswith((self.server.url, "data:"))]
        assert foreign == []
        assert self.complaints == []


@contextmanager
def watched(chromium, server, **options):
    context = chromium.new_context(viewport={"width": 1280, "height": 900}, **options)
    made = Watched(context.new_page(), server)
    try:
        made.open(f"/threads?token={TOKEN}")
        yield made
    finally:
        context.close()


@pytest.fixture
def view(chromium, server):
    """
    A page in a session; at the end it must have asked this server alone, and complained of nothing.
    """
    with watched(chromium, server) as made:
        yield made
        made.finish()
