"""Pages on another origin: the headers that their browsers ask for."""

from pathlib import Path

import httpx
from starlette.middleware.cors import CORSMiddleware

from tests.web.apps import application
from tests.web.server import running

PAGE = "https://page.test"
EXPOSED = ["Content-Location", "Location"]


def test_a_page_of_another_origin_uses_the_server(tmp_path: Path):
    """
    With Starlette's CORS middleware a page on another origin may send JSON and read a run's id.
    """
    app = CORSMiddleware(
        application(tmp_path / "runs.db"),
        allow_origins=[PAGE],
        allow_methods=["*"],
        allow_headers=["*"],
        expose_headers=EXPOSED,
    )
    asks = {
        "Origin": PAGE,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "content-type",
    }
    body = {"assistant_id": "log", "input": {"foo": "a"}}
    with running(app) as url, httpx.Client(base_url=url, trust_env=False) as client:
        may = client.options("/runs/wait", headers=asks)
        ran = client.post("/runs/wait", json=body, headers={"Origin": PAGE})
        other = client.options("/runs/wait", headers={**asks, "Origin": "https://evil.test"})

    assert may.headers["access-control-allow-origin"] == PAGE
    assert ran.headers["access-control-allow-origin"] == PAGE
    assert ran.headers["access-control-expose-headers"] == ", ".join(EXPOSED)
    assert "/runs/" in ran.headers["content-location"]
    assert "access-control-allow-origin" not in other.headers
