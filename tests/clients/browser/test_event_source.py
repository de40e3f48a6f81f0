"""EventSource of a real Chromium: it comes back by itself, and stops after the end."""

from contextlib import contextmanager

import pytest

from tests.clients.servers import DEFAULT, NGINX, begin, free_port, how_to, nginx, serving
from tests.web.clients import Events, Told

STEPS = 60
NAMES = ["metadata", "updates", "values", "gap", "drain", "error", "end"]
PATIENCE_MS = 40_000
PATHS = {"langgraph": "/threads/t/runs/{run}/stream", "events": "/events/{run}"}


def follow(page, address, path):
    """Open the page, and let it follow a stream."""
    page.goto(f"{address}/page")
    page.evaluate("([url, names]) => follow(url, names)", [path, NAMES])


def told(page):
    """All that the page was told."""
    events = Events()
    for number, name, data in page.evaluate("told"):
        events.all.append(Told(int(number) if number else None, name, data))
    return events


@contextmanager
def fronts(folder, port, config):
    """The address that a browser uses."""
    if config is None:
        yield f"http://127.0.0.1:{port}"
        return
    if NGINX is None:
        pytest.skip("nginx is not installed")
    with nginx(folder, port, config) as address:
        yield address


@pytest.fixture
def page(chromium):
    """
    An empty page.
    """
    made = chromium.new_page()
    made.set_default_timeout(PATIENCE_MS)
    yield made
    made.close()


@pytest.mark.parametrize("config", [None, how_to()], ids=["alone", "nginx"])
@pytest.mark.parametrize("form", PATHS)
def test_it_goes_on_after_the_servers_kill(tmp_path, page, config, form):
    """
    The browser connects again until the killed server is there, with its last event's id: each
    event once, in order. After the end it asks once more, gets a 204, and stops.
    """
    port, path, statuses = free_port(), tmp_path / "runs.db", []
    with fronts(tmp_path, port, config) as address:
        with serving(path, port) as first:
            run = begin(address, "steps", {"most": STEPS}, stream_mode=["updates"])
            place = PATHS[form].format(run=run)
            page.on("response", lambda r: r.url.endswith(place) and statuses.append(r.status))
            follow(page, address, place)
            page.wait_for_function("told.length > 5")
            first.kill()
        page.wait_for_function("failures === 2")
        with serving(path, port):
            page.wait_for_function("told.at(-1)[1] === 'end'")
            page.wait_for_function("source.readyState === EventSource.CLOSED")
            events = told(page)

    assert statuses == [200, 200, 204]
    assert events.ids == list(range(1, len(events.ids) + 1))
    assert events.names.count("metadata") == 2
    assert events.faults().total() == 0
    steps = [d["step"]["done"][0] for name, d in events.told if name == "updates"]
    states = [d["done"] for name, d in events.told if name == "values"]
    assert sorted({*steps, *(step for state in states for step in state)}) == list(range(STEPS))
    assert events.names[-1] == "end"


def test_a_502_ends_it(tmp_path, page):
    """
    Behind `proxy_pass` alone the browser gives up when nginx has no server: the reason for
    `@away` in the how-to guide.
    """
    port = free_port()
    with fronts(tmp_path, port, DEFAULT) as address:
        with serving(tmp_path / "runs.db", port) as first:
            run = begin(address, "steps", {"most": 10_000}, stream_mode=["updates"])
            follow(page, address, PATHS["events"].format(run=run))
            page.wait_for_function("told.length > 5")
            first.kill()
        page.wait_for_function("source.readyState === EventSource.CLOSED")

        assert page.evaluate("failures") == 2
