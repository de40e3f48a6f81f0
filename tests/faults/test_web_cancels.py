"""Requests that are given up at each of their suspensions: `tests/web/leaving.py` says how."""

from itertools import count

import pytest

from tests.faults.crashes import report, row
from tests.web.leaving import HOW, JUDGED, WAITS, leave_everywhere, served


@pytest.mark.parametrize("request_", WAITS, ids=[f"{one.method} {one.path}" for one in WAITS])
async def test_a_client_that_leaves_leaves_nothing_behind(
    request_, tmp_path, request, anyio_backend
):
    """
    Cancelled, or disconnected, at any suspension, a request ends; no place, lock, reader, thread
    or run of it stays, and the next request for the same thread is served.
    """
    where: list[str] = []
    async with served(tmp_path) as place:
        for how in HOW[anyio_backend]:
            seen = await leave_everywhere(place, request_, how, count(1), where.append)
            figures = ", ".join(f"{name} {seen[name]}" for name in ("awaits", *JUDGED))
            what = f"{request_.method} {request_.path}, {how}, {anyio_backend}"
            report(request.config, "web", row("clients that leave", what, figures))
            assert seen["awaits"] > 0

    assert not where, "\n".join(where)
