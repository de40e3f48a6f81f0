"""One tenant's data never comes back to another: every request, on real servers."""

import re

import httpx
import pytest

from tests.faults.crashes import report, row
from tests.web.canary import Place, everything, not_reached
from tests.web.canary_app import WORD
from tests.web.inspected_app import SERVERS
from tests.web.processes import DEADLINE_S, server

ACCESS = re.compile(r'"(GET|POST|PUT|PATCH|DELETE|HEAD|OPTIONS) |\[.*\] .* HTTP/1')
"""A line of a server's own access log: it repeats the address that was asked for."""


@pytest.mark.parametrize("kind", SERVERS)
async def test_the_word_never_comes_back(kind, tmp_path, request, anyio_backend_name):
    """
    Every wrong value in every field of every route, asked by another tenant on a real server: no
    body, header, event, log line, metric or span holds anything of the first tenant's.
    """
    if anyio_backend_name == "trio":
        pytest.skip("it is the server's event loop that counts")
    path = tmp_path / "runs.db"
    with server(kind, path, module="tests.web.canary_app") as made:
        async with httpx.AsyncClient(base_url=made.url, timeout=DEADLINE_S) as client:
            place = Place(client)
            await place.fill()
            await everything(place, few=None)
        made.stop()

    said = [line for line in made.said if WORD in line.lower() and not ACCESS.search(line)]
    asked = sum(statuses.total() for statuses in place.answered.values())
    figures = f"{asked} requests of {len(place.answered)} routes, {len(place.leaks)} leaks"
    report(request.config, "web", row("canary of tenants", kind, figures))
    assert not place.leaks, "\n".join([str(len(place.leaks)), *place.leaks[:20]])
    assert not_reached(place) == []
    assert said == []
