"""Ids that no thread can have: refused, or not found, whatever text the database takes."""

from typing import Any
from urllib.parse import quote

import httpx
import pytest

from actorgraph import ActorSystem, InMemorySaver
from actorgraph.errors import InvalidConfigError
from actorgraph.stores import InMemoryStore
from actorgraph.web import GraphRoutes
from tests.support.every_saver import stored_in
from tests.web.apps import GRAPHS

IMPOSSIBLE = ["\0", "a\0b", "\x7f", "a\x85", "\x9b", "x" * 256, "\u00e9" * 128]
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


CONTROLS = ["a\x1bb", "a\n", "\x85", "a\x9b"]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("wrong", CONTROLS)
async def test_no_name_of_a_client_has_control_characters(wrong):
    """
    Ids and names of assistants, and labels and keys of items to store, are refused with them.
    """
    saver = InMemorySaver()
    system = ActorSystem({"log": GRAPHS["log"].compile(checkpointer=saver)}, saver=saver)
    transport = httpx.ASGITransport(GraphRoutes(system), raise_app_exceptions=False)
    async with system, httpx.AsyncClient(transport=transport, base_url="http://t") as client:
        answers = [
            await client.request(method, path, json=body)
            for method, path, body in (
                ("POST", "/assistants", {"graph_id": "log", "assistant_id": wrong}),
                ("POST", "/assistants", {"graph_id": "log", "name": wrong}),
                ("PATCH", "/assistants/x", {"name": wrong}),
                ("PUT", "/store/items", {"namespace": [wrong], "key": "k", "value": {}}),
                ("PUT", "/store/items", {"namespace": ["a"], "key": wrong, "value": {}}),
            )
        ]

    assert [answer.status_code for answer in answers] == [422] * 5


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_no_item_has_the_sign_for_any_label():
    """
    "*" is refused in the namespace of an item; in a list of namespaces the rules of access are
    asked about the labels before it.
    """
    asked: list[Any] = []

    def authorize(_: Any, action: str, __: Any, about: Any) -> bool:
        asked.append(about.get("namespace"))
        return True

    saver = InMemorySaver()
    system = ActorSystem({"log": GRAPHS["log"].compile(checkpointer=saver)}, saver=saver)
    transport = httpx.ASGITransport(GraphRoutes(system, authorize=authorize))
    item = {"namespace": ["a", "*"], "key": "k", "value": {}}
    async with system, httpx.AsyncClient(transport=transport, base_url="http://t") as client:
        refused = [
            await client.put("/store/items", json=item),
            await client.request("DELETE", "/store/items", json=item),
            await client.get("/store/items?namespace=a.*&key=k"),
            await client.get("/store/items?namespace=*&namespace=a&key=k"),
            await client.post("/store/items/search", json={"namespace_prefix": ["*"]}),
        ]
        asked.clear()
        listed = await client.post("/store/namespaces", json={"prefix": ["a", "*", "b"]})

    assert [answer.status_code for answer in refused] == [422] * 5
    assert (listed.status_code, asked) == (200, [["a"]])


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
