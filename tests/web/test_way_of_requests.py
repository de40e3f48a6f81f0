"""The way of a POST to its node: how much is called, and how often its thread is read."""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from actorgraph import ActorSystem, SqliteSaver
from actorgraph.errors import StorageError
from actorgraph.values.systems import OPEN_STATUSES
from actorgraph.web import GraphRoutes
from tests.support.post_path import REQUESTS, SAVERS, Figures, figures_in_new_process
from tests.web.apps import GRAPHS

RUN = {"assistant_id": "log", "input": {"foo": "a"}}

CALLS_MAX, FUNCTIONS_MAX, FILES_MAX = 530, 412, 99
"""Over a saver in memory, which has no threads of its own. Lower them when the way gets shorter."""


@pytest.fixture(scope="module")
def figures() -> dict[tuple[str, str], Figures]:
    """
    One process counts them all.
    """
    return figures_in_new_process()


@pytest.mark.parametrize("ending", REQUESTS)
@pytest.mark.parametrize("saver", SAVERS)
class TestTheWay:
    """The calls from the application to the node."""

    def test_a_launch_is_made_once(self, figures, saver, ending):
        """
        The call of a request is validated and set up in one go.
        """
        assert figures[saver, ending].launches == 1

    def test_a_thread_is_read_once_before_its_run_is_loaded(self, figures, saver, ending):
        """
        Before a run's own load the saver is asked for the thread at most once.
        """
        queries = figures[saver, ending].queries
        assert queries[: queries.index("LoadCheckpoint")] in ([], ["FindThreads"])


@pytest.mark.parametrize("ending", REQUESTS)
def test_the_way_stays_short(figures, ending):
    """
    A request in memory calls no more than it does today.
    """
    found = figures["memory", ending]
    assert found.calls <= CALLS_MAX
    assert found.functions <= FUNCTIONS_MAX
    assert found.files <= FILES_MAX


class Asked:
    """A watch of a saver that counts the kinds of queries and writes, and refuses some."""

    def __init__(self) -> None:
        self.names: Counter[str] = Counter()
        self.refused = ""

    def handed_over(self, request: Any) -> StorageError | None:
        self.names[name := type(request).__name__] += 1
        return StorageError(f"{name} fails", do="try again") if name == self.refused else None

    def asked(self, query: Any) -> Any:
        self.names[type(query).__name__] += 1
        return query

    def answered(self, query: Any, answer: Any) -> Any:
        return answer

    def count(self, *names: str) -> list[int]:
        return [self.names[name] for name in names]


@asynccontextmanager
async def served(folder: Any, **options: Any) -> AsyncIterator[Any]:
    """A server over a SQLite file, as a client whose `asked` counts."""
    saver: Any = SqliteSaver(folder / "runs.db")
    saver.watch = asked = Asked()
    graphs = {name: graph.compile(checkpointer=saver) for name, graph in GRAPHS.items()}
    system = ActorSystem(graphs, saver=saver)
    transport = httpx.ASGITransport(GraphRoutes(system, **options), raise_app_exceptions=False)
    made: Any = httpx.AsyncClient(transport=transport, base_url="http://test")
    async with system, made:
        made.system, made.asked = system, asked
        await made.post("/threads", json={"thread_id": "t"})
        asked.names.clear()
        yield made


class TestTheFirstRunOfAThread:
    """A thread that was registered without a graph."""

    @pytest.mark.parametrize("ending", REQUESTS)
    async def test_its_thread_is_read_twice(self, tmp_path, ending):
        """
        At admission and once the run is stored, and its labels are one write; no rule asks again.
        """
        async with served(tmp_path) as client:
            run = await client.post(f"/threads/t/runs{ending}", json=RUN)
            counts = client.asked.count("FindThreads", "ListCheckpoints", "ListRuns", "PatchThread")
            thread = (await client.get("/threads/t")).json()

        assert run.status_code == 200
        assert counts == [2, 0, 0, 1]
        assert thread["metadata"]["graph_id"] == "log"

    async def test_a_rule_sees_the_graph_that_the_program_ran_there(self, tmp_path):
        """
        Where rules read a thread's metadata, its graph is looked up before the run names it.
        """
        seen: list[str | None] = []

        def rule(user: Any, action: str, thread_id: str | None, metadata: Any) -> bool:
            if action == "runs.create":
                seen.append(metadata.get("graph_id"))
            return True

        async with served(tmp_path, authorize=rule) as client:
            await (await client.system.start("talk", "t", {"messages": []})).wait()
            answer = await client.post("/threads/t/runs/wait", json=RUN)

        assert answer.status_code == 200
        assert seen == ["talk", "log"]

    async def test_no_run_goes_on_where_the_thread_is_removed_meanwhile(self, tmp_path):
        """
        A thread that goes before the run's labels are stored stays gone, and the run is refused.
        """

        async def removes(user: Any, action: str, thread_id: str | None, metadata: Any) -> bool:
            if action == "runs.create":
                await client.delete(f"/threads/{thread_id}")
            return True

        async with served(tmp_path, authorize=removes) as client:
            body = {"assistant_id": "sleep", "input": {"foo": "a"}}
            answer = await client.post("/threads/t/runs", json=body)

            assert answer.status_code == 404
            assert await client.system.runs(statuses=OPEN_STATUSES) == []
            assert (await client.get("/threads/t")).status_code == 404

    async def test_a_run_whose_thread_can_not_be_labelled_is_cancelled(self, tmp_path):
        """
        A request that fails because its thread's labels were refused leaves no run behind.
        """
        async with served(tmp_path) as client:
            client.asked.refused = "PatchThread"
            body = {"assistant_id": "sleep", "input": {"foo": "a"}}
            answer = await client.post("/threads/t/runs", json=body)
            (run,) = await client.system.runs(thread_id="t")

            assert answer.status_code == 503
            assert await run.wait() == "cancelled"
