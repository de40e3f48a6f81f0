"""Threads, assistants and items through LangGraph's own client: it knows nothing of us."""

import pytest
from langgraph_sdk.errors import ConflictError, NotFoundError, UnprocessableEntityError

from tests.web.apps import GRAPHS
from tests.web.sdk import DONE, NEW, address, anyio_backend, client

__all__ = ["address", "anyio_backend", "client"]


class TestThreads:
    async def test_a_thread_is_made_and_found(self, client):
        """
        A thread is made with metadata, read by its id, and changed.
        """
        made = await client.threads.create(metadata={"n": 1})
        found = await client.threads.get(made["thread_id"])
        changed = await client.threads.update(made["thread_id"], metadata={"m": 2})

        assert (found["status"], found["metadata"]) == ("idle", {"n": 1})
        assert changed["metadata"] == {"n": 1, "m": 2}

    async def test_an_id_is_taken_once(self, client):
        """
        A thread's id may be chosen; twice it is a conflict, unless that is wanted.
        """
        await client.threads.create(thread_id="chosen")
        again = await client.threads.create(thread_id="chosen", if_exists="do_nothing")

        assert again["thread_id"] == "chosen"
        with pytest.raises(ConflictError):
            await client.threads.create(thread_id="chosen")

    async def test_threads_are_searched_and_counted(self, client):
        """
        A search finds threads by metadata and status, page by page.
        """
        for n in range(3):
            made = await client.threads.create(metadata={"search": "x", "n": n})
        await client.runs.wait(made["thread_id"], "ask", input=NEW)
        found = await client.threads.search(metadata={"search": "x"}, limit=2)
        waiting = await client.threads.search(metadata={"search": "x"}, status="interrupted")

        assert len(found) == 2
        assert [t["metadata"]["n"] for t in waiting] == [2]
        assert await client.threads.count(metadata={"search": "x"}) == 3

    async def test_a_thread_is_copied(self, client):
        """
        A copy has the same state and goes its own way.
        """
        made = await client.threads.create()
        await client.runs.wait(made["thread_id"], "log", input=NEW)
        copied = await client.threads.copy(made["thread_id"])
        await client.runs.wait(copied["thread_id"], "log", input={"log": ["more"]})
        state = await client.threads.get_state(made["thread_id"])

        assert copied["thread_id"] != made["thread_id"]
        assert state["values"] == DONE

    async def test_a_deleted_thread_is_gone(self, client):
        """
        A deleted thread is found no more.
        """
        made = await client.threads.create()
        await client.runs.wait(made["thread_id"], "log", input=NEW)
        await client.threads.delete(made["thread_id"])

        with pytest.raises(NotFoundError):
            await client.threads.get(made["thread_id"])

    async def test_a_thread_is_made_with_its_state(self, client):
        """
        A thread is made of supersteps: of values and of commands, one checkpoint each.
        """
        made = await client.threads.create(
            graph_id="log",
            supersteps=[
                {"updates": [{"values": NEW, "as_node": "__input__"}]},
                {"updates": [{"values": NEW, "as_node": "__start__"}]},
                {"updates": [{"values": {"log": ["first"]}, "as_node": "first"}]},
                {
                    "updates": [
                        {
                            "values": None,
                            "command": {"update": {"log": ["second"]}},
                            "as_node": "second",
                        }
                    ]
                },
            ],
        )
        history = await client.threads.get_history(made["thread_id"])

        assert made["values"] == DONE
        nodes = [[], ["second"], ["first"], ["__start__"]]
        assert [state["next"] for state in history] == nodes

    async def test_a_state_that_can_not_be_made_makes_no_thread(self, client):
        """
        A superstep of a node that isn't there is refused, and so is the thread.
        """
        steps = [{"updates": [{"values": NEW, "as_node": "nobody"}]}]
        with pytest.raises(UnprocessableEntityError, match="nobody"):
            await client.threads.create(thread_id="half", graph_id="log", supersteps=steps)

        with pytest.raises(NotFoundError):
            await client.threads.get("half")

    async def test_threads_are_pruned(self, client):
        """
        Pruned threads keep their newest state, or nothing.
        """
        made = await client.threads.create()
        identifier = made["thread_id"]
        await client.runs.wait(identifier, "log", input=NEW)
        kept = await client.threads.prune([identifier], strategy="keep_latest")
        history = await client.threads.get_history(identifier)
        state = await client.threads.get_state(identifier)

        assert kept == {"pruned_count": 1}
        assert (len(history), state["values"]) == (1, DONE)
        assert await client.threads.prune([identifier]) == {"pruned_count": 1}
        with pytest.raises(NotFoundError):
            await client.threads.get(identifier)


class TestState:
    async def test_a_state_is_read_and_updated(self, client):
        """
        An update goes through the reducers, and makes a checkpoint.
        """
        made = await client.threads.create()
        identifier = made["thread_id"]
        await client.runs.wait(identifier, "log", input=NEW)
        updated = await client.threads.update_state(
            identifier, {"log": ["edited"]}, as_node="first"
        )
        state = await client.threads.get_state(identifier)

        assert state["values"]["log"] == [*DONE["log"], "edited"]
        assert state["next"] == ["second"]
        assert state["checkpoint"]["checkpoint_id"] == updated["checkpoint"]["checkpoint_id"]

    async def test_an_old_state_is_read_by_its_id(self, client):
        """
        Each state of the history is found by its checkpoint, as an id and as an address.
        """
        made = await client.threads.create()
        identifier = made["thread_id"]
        await client.runs.wait(identifier, "log", input=NEW)
        history = await client.threads.get_history(identifier, limit=10)
        old = history[1]
        by_id = await client.threads.get_state(
            identifier, checkpoint_id=old["checkpoint"]["checkpoint_id"]
        )
        by_address = await client.threads.get_state(identifier, checkpoint=old["checkpoint"])

        assert [h["next"] for h in history] == [[], ["second"], ["first"], ["__start__"]]
        assert by_id["values"] == by_address["values"] == old["values"]
        assert old["parent_checkpoint"] == history[2]["checkpoint"]

    async def test_history_has_pages_and_filters(self, client):
        """
        A history is cut by limit, before and metadata.
        """
        made = await client.threads.create()
        identifier = made["thread_id"]
        await client.runs.wait(identifier, "log", input=NEW)
        two = await client.threads.get_history(identifier, limit=2)
        rest = await client.threads.get_history(identifier, before=two[-1]["checkpoint"])
        loops = await client.threads.get_history(identifier, metadata={"source": "loop"})

        assert (len(two), len(rest)) == (2, 2)
        assert {state["metadata"]["source"] for state in loops} == {"loop"}


class TestAssistants:
    async def test_each_graph_is_one(self, client):
        """
        Assistants are the registered graphs, found by id and by name.
        """
        found = await client.assistants.search(limit=100)
        one = await client.assistants.get(found[0]["assistant_id"])

        assert {a["graph_id"] for a in found} == set(GRAPHS)
        assert one == found[0]
        assert (await client.assistants.get(one["graph_id"])) == one
        assert await client.assistants.count() == len(GRAPHS)
        with pytest.raises(NotFoundError):
            await client.assistants.get("nobody")

    async def test_its_graph_and_schemas(self, client):
        """
        The drawing and the schemas of a graph are returned.
        """
        drawn = await client.assistants.get_graph("log")
        schemas = await client.assistants.get_schemas("log")

        assert {n["id"] for n in drawn["nodes"]} >= {"first", "second"}
        assert set(schemas["state_schema"]["properties"]) == {"foo", "log"}
        assert await client.assistants.get_subgraphs("log") == {}


class TestStore:
    async def test_items(self, client):
        """
        An item is stored, read, found and deleted.
        """
        await client.store.put_item(["users", "ann"], key="k", value={"colour": "red"})
        got = await client.store.get_item(["users", "ann"], key="k")
        found = await client.store.search_items(["users"], filter={"colour": "red"})
        await client.store.delete_item(["users", "ann"], key="k")

        assert got["value"] == {"colour": "red"}
        assert [item["key"] for item in found["items"]] == ["k"]
        with pytest.raises(NotFoundError):
            await client.store.get_item(["users", "ann"], key="k")

    async def test_namespaces(self, client):
        """
        Namespaces are listed by their beginning; the server's own are not shown.
        """
        await client.threads.create()
        await client.store.put_item(["spaces", "a"], key="k", value={})
        found = await client.store.list_namespaces(prefix=["spaces"])
        everything = await client.store.list_namespaces(limit=1000)

        assert found["namespaces"] == [["spaces", "a"]]
        assert all(n[0] != "actorgraph" for n in everything["namespaces"])
