"""Ten and more calls through a client that openapi-python-client has generated.

usage: python ten_calls.py ADDRESS
"""

import sys

from actorgraph_client import Client
from actorgraph_client.api.default import (
    delete_threads_thread_id,
    get_store_items,
    get_threads_thread_id,
    get_threads_thread_id_runs,
    get_threads_thread_id_state,
    post_assistants_search,
    post_store_items_search,
    post_threads,
    post_threads_count,
    post_threads_search,
    post_threads_thread_id_history,
    post_threads_thread_id_runs_wait,
    put_store_items,
)
from actorgraph_client.models import (
    AssistantSearch,
    HistoryBody,
    Item,
    ItemPage,
    ItemPut,
    ItemPutValue,
    ItemSearch,
    RunBody,
    State,
    Thread,
    ThreadBody,
    ThreadCount,
    ThreadSearch,
)

client = Client(base_url=sys.argv[1])

made = post_threads.sync(client=client, body=ThreadBody(thread_id="t"))
assert isinstance(made, Thread)
assert made.thread_id == "t"

ran = post_threads_thread_id_runs_wait.sync(
    "t", client=client, body=RunBody(assistant_id="log", input_={"foo": "a"})
)
assert ran == {"foo": "a", "log": ["first", "second"]}

runs = get_threads_thread_id_runs.sync("t", client=client)
assert isinstance(runs, list)
assert [run.status for run in runs] == ["success"]

state = get_threads_thread_id_state.sync("t", client=client)
assert isinstance(state, State)
assert state.next_ == []

history = post_threads_thread_id_history.sync("t", client=client, body=HistoryBody(limit=2))
assert isinstance(history, list)
assert len(history) == 2

found = post_threads_search.sync(client=client, body=ThreadSearch(limit=5))
assert isinstance(found, list)
assert [thread.thread_id for thread in found] == ["t"]

assert post_threads_count.sync(client=client, body=ThreadCount()) == 1

item = ItemPut(namespace=["a"], key="k", value=ItemPutValue.from_dict({"n": 1}))
assert put_store_items.sync_detailed(client=client, body=item).status_code == 204

kept = get_store_items.sync(client=client, key="k", namespace="a")
assert isinstance(kept, Item)
assert kept.value.additional_properties == {"n": 1}

items = post_store_items_search.sync(client=client, body=ItemSearch(namespace_prefix=["a"]))
assert isinstance(items, ItemPage)
assert [one.key for one in items.items] == ["k"]

assistants = post_assistants_search.sync(client=client, body=AssistantSearch(graph_id="log"))
assert isinstance(assistants, list)
assert [one.graph_id for one in assistants] == ["log"]

assert delete_threads_thread_id.sync_detailed("t", client=client).status_code == 204

gone = get_threads_thread_id.sync_detailed("t", client=client)
assert gone.status_code == 404
