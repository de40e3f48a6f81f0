"""Ids that no thread can have: refused, or not found, whatever text the database takes."""

from typing import Any
from urllib.parse import quote

import httpx
import pytest

from actorgraph import ActorSystem
from actorgraph.errors import InvalidConfigError
from actorgraph.stores import InMemoryStore
from actorgraph.web import GraphRoutes
from tests.support.every_saver import stored_in
from tests.web.apps import GRAPHS

IMPOSSIBLE = ["\0", "a\0b", "\x7f", "x" * 256, "\u00e9" * 128]
RUN = {"assistant_id": "log", "if_not_exists": "create"}
NOT_FOUND: list[tuple[str, str, Any]] = [
    ("GET", "/threads/{id}", None),
    ("GET", "/threads/{id}/state", None),
    ("DELETE", "/threads/{id}", None),
    ("POST", "/threads/{id}/runs", {"assistant_id": "log"}),
    ("GET", "/threads/{id}/runs/{id}", None),
]
"""Method, path and body of requests for what can't be there."""


def refused(wrong: str) -> list[tuple[str, str, Any]]:
    """Requests that would make something with an impossible id, or ask for its runs."""
    return [
        ("POST", "/threads/{id}/runs/wait", RUN),
        ("POST", "/threads", {"thread_id": wrong}),
        ("POST", "/runs/cancel", {"thread_id": wrong, "run_ids": []}),
        ("POST", "/runs/search", {"thread_id": wrong}),
    ]


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_no_request_with_an_impossible_id_fails(kind, tmp_path, request):
    """
    Over each database such a thread is missing, can't be made, and is left out of lists.
    """
    with stored_in(request, kind, tmp_path) as place:
        saver = place.again()
        graphs = {name: graph.compile(checkpointer=saver) for name, graph in GRAPHS.items()}
        system = ActorSystem(graphs, saver=saver, store=InMemoryStore())
        transport = httpx.ASGITransport(GraphRoutes(system), raise_app_exceptions=False)
        async with system, httpx.AsyncClient(transport=transport, base_url="http://t") as client:
            for wrong in IMPOSSIBLE:

                async def ask(method: str, path: str, body: Any, wrong: str = wrong) -> Any:
                    path = path.replace("{id}", quote(wrong, safe=""))
                    return await client.request(method, path, json=body)

                for one in NOT_FOUND:
                    assert (await ask(*one)).status_code == 404, one
                for one in refused(wrong):
                    assert (await ask(*one)).status_code == 422, one
                pruned = await ask("POST", "/threads/prune", {"thread_ids": [wrong]})
                assert pruned.json() == {"pruned_count": 0}
                assert (await ask("POST", "/threads/search", {"ids": [wrong]})).json() == []


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
async def test_a_system_refuses_to_list_the_runs_of_an_impossible_id(kind, tmp_path, request):
    """
    `runs(thread_id=)` names the id that no thread can have, instead of asking the database.
    """
    with stored_in(request, kind, tmp_path) as place:
        saver = place.again()
        graph = GRAPHS["log"].compile(checkpointer=saver)
        async with ActorSystem({"log": graph}, saver=saver) as system:
            for wrong in IMPOSSIBLE:
                with pytest.raises(InvalidConfigError, match="thread_id must have 1 to 255 bytes"):
                    await system.runs(thread_id=wrong)
