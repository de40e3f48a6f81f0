"""No request holds the event loop: every route with each of the largest bodies it takes.

The everyday tests ask a sample of these (tests/web/test_loop_holds.py).
"""

from pathlib import Path

import pytest

from actorgraph.web import Limits
from actorgraph.web.routes import ENDPOINTS
from tests.support.every_saver import stored_in
from tests.web.loop_holds import LIMIT_S, everything, served, slowness

pytestmark = [
    pytest.mark.usefixtures("few_objects"),
    pytest.mark.filterwarnings("ignore::actorgraph.errors.UnknownChannelWarning"),
    pytest.mark.parametrize("anyio_backend", ["asyncio"]),
]


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_no_route_holds_the_loop(kind: str, tmp_path: Path, request: pytest.FixtureRequest):
    """
    Every route is asked with each of its fields as large as the limits allow, beside 100 threads, a
    long one and a large one; none holds the loop above 50 ms.
    """
    limit_s = LIMIT_S * max(1.0, slowness())
    with stored_in(request, kind, tmp_path) as store:
        async with served(store, Limits()) as place:
            await place.fill(100, 200, 19_000)
            holds, refused = await everything(place, limit_s)

    assert [hold for hold in holds if hold[0] > limit_s] == []
    assert refused == []
    assert len(holds) > 2 * len(ENDPOINTS)
