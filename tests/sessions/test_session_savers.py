"""SessionSaver: techrevati's contract over every saver."""

import dataclasses
import inspect
import threading
from datetime import UTC, datetime
from textwrap import dedent

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.checkpoint.memory import InMemorySaver as TheirSaver

from actorgraph import InMemorySaver, SqliteSaver
from actorgraph.errors import CheckpointNotFoundError, InvalidConfigError, SerializationError
from actorgraph.runtime.clock import IDS
from actorgraph.sessions import Checkpoint, CheckpointSaver, SessionSaver
from actorgraph.testing import session_saver_checks
from tests.sessions.engines import Journal
from tests.support.graphs import ab, at
from tests.support.warm_processes import run

pytestmark = pytest.mark.every_saver

CHECKS = session_saver_checks()


@pytest.fixture
def sessions(store):
    """A saver of sessions over each kind of saver, for blocking programs."""
    with store.saver() as saver:
        yield SessionSaver(saver)


@pytest.mark.promise("S220", "S224", "S225", "S226", "S227", "S228", "S229")
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_every_saver_keeps_the_contract(check, sessions):
    """
    `get`, `put`, `list`, `delete` over each saver: records, order, copies, JSON, many threads.
    """
    check(sessions)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_langgraphs_savers_keep_it_too(check):
    """
    A saver of LangGraph's, which knows nothing of this library, may be below.
    """
    check(SessionSaver(TheirSaver()))


@pytest.mark.promise("S222")
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_a_saver_in_front_of_another_engine_keeps_it_too(check, tmp_path):
    """
    A class that forwards to an engine of its own passes the suite.
    """
    check(Journal(tmp_path / "journal"))


class TestRecords:
    @pytest.mark.promise("S223")
    def test_the_dataclass(self):
        """
        Its fields are techrevati's, with their defaults; it is frozen.
        """
        fields = {f.name: f.default for f in dataclasses.fields(Checkpoint)}
        point = Checkpoint("i", "t", datetime.now(UTC), {})

        assert list(fields) == ["id", "thread_id", "created_at", "state", "parent_id", "metadata"]
        assert (point.parent_id, point.metadata) == (None, {})
        with pytest.raises(dataclasses.FrozenInstanceError):
            point.id = "x"

    @pytest.mark.promise("S191", "S220")
    def test_any_object_with_the_four_methods(self, tmp_path):
        """
        The protocol is structural, and its signatures are techrevati's.
        """
        assert isinstance(SessionSaver(), CheckpointSaver)
        assert isinstance(Journal(tmp_path), CheckpointSaver)
        assert not isinstance(object(), CheckpointSaver)
        assert str(inspect.signature(SessionSaver.list)).startswith(
            "(self, thread_id: str, *, before: str | None = None, limit: int = 10)"
        )

    @pytest.mark.promise("S224")
    def test_every_saver_changes_values_as_json_does(self, sessions):
        """
        Tuples come back as lists, at once and later; the error names the path.
        """
        point = sessions.put("t", {"a": (1, (2,)), "big": 2**70})

        assert point.state == {"a": [1, [2]], "big": 2**70}
        assert sessions.get("t") == point
        with pytest.raises(SerializationError, match=r"metadata\['a'\]\[0\] is of type set"):
            sessions.put("t", {}, metadata={"a": [{1}]})


class TestOrder:
    @pytest.mark.promise("S226", "S228", "D13")
    def test_the_last_put_is_the_latest_even_if_the_clock_goes_back(self, sessions, monkeypatch):
        """
        D13: under a clock that stops, and one that goes back, all savers give the last put.
        """
        times = iter([100, 100, 100, 90, 80, 80])

        class Clock:
            def ticks(self):
                return next(times, 10) + 0x01B21DD213814000

        monkeypatch.setattr(IDS, "_clock", Clock())
        monkeypatch.setattr(IDS, "_last", 0)
        points = [sessions.put("t", {"n": n}) for n in range(6)]

        assert sessions.get("t") == points[-1]
        assert sessions.list("t") == points[::-1]
        assert sessions.list("t", before=points[3].id) == points[2::-1]

    def test_a_parent_is_one_of_the_threads(self, sessions):
        """
        A parent that the thread hasn't got is refused, and so is an id that can't be.
        """
        other = sessions.put("u", {})

        with pytest.raises(CheckpointNotFoundError):
            sessions.put("t", {}, parent_id=other.id)
        with pytest.raises(InvalidConfigError):
            sessions.put("", {})
        with pytest.raises(InvalidConfigError):
            sessions.list("t", limit="1; DROP TABLE checkpoints")
        assert sessions.list("t") == []

    @pytest.mark.promise("S228")
    @given(
        st.lists(st.sampled_from("tuv"), max_size=14),
        st.sampled_from("tuv"),
        st.integers(-2, 14),
        st.none() | st.integers(0, 13),
    )
    def test_lists_are_slices_of_a_model(self, puts, thread, limit, before):
        """
        For any puts, `before` and `limit`: the slice that a plain list gives.
        """
        with InMemorySaver() as saver:
            sessions, kept = SessionSaver(saver), {name: [] for name in "tuv"}
            points = [sessions.put(name, {"n": n}) for n, name in enumerate(puts)]
            for name, point in zip(puts, points, strict=True):
                kept[name].insert(0, point)
            model, named = kept[thread], None
            if before is not None and before < len(points):
                named = points[before].id
                ids = [point.id for point in model]
                model = model[ids.index(named) + 1 :] if named in ids else []

            assert sessions.list(thread, before=named, limit=limit) == model[: max(limit, 0)]


class TestKinds:
    @pytest.mark.promise("S230")
    def test_a_new_one_is_of_the_process(self):
        """
        Without a saver it keeps them in memory, and says that they don't last.
        """
        sessions = SessionSaver()
        assert not sessions.durable
        assert SessionSaver(SqliteSaver("x.db")).durable

        def put(name):
            for n in range(200):
                sessions.put(name, {"n": n})

        threads = [threading.Thread(target=put, args=(str(n),)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        rows = [point for n in range(8) for point in sessions.list(str(n), limit=9999)]
        assert len({point.id for point in rows}) == len(rows) == 1600

    @pytest.mark.promise("S231")
    def test_a_file_survives_the_process(self, tmp_path):
        """
        A session stored by one process is read by another one.
        """
        program = """
        import sys
        from actorgraph import SqliteSaver
        from actorgraph.sessions import SessionSaver
        with SqliteSaver(sys.argv[1]) as saver:
            print(SessionSaver(saver).put("t", {"n": 1}, metadata={"m": 2}).id)
        """
        path = str(tmp_path / "runs.db")
        done = run(["-c", dedent(program), path], check=True)

        with SqliteSaver(path) as saver:
            point = SessionSaver(saver).get("t")
        assert point is not None
        assert (point.id, point.state, point.metadata) == (done.stdout.strip(), {"n": 1}, {"m": 2})

    @pytest.mark.promise("S225")
    async def test_the_async_twins(self, saver):
        """
        The same over asyncio and trio, many tasks at once.
        """
        sessions = SessionSaver(saver)
        first = await sessions.aput("t", {"n": 0})
        async with anyio.create_task_group() as group:
            for n in range(1, 20):
                group.start_soon(sessions.aput, "t", {"n": n})

        found = await sessions.alist("t", limit=99)
        assert sorted(point.state["n"] for point in found) == list(range(20))
        assert found[-1] == first == await sessions.aget("t", first.id)
        await sessions.adelete("t")
        assert await sessions.aget("t") is None

    async def test_a_graph_may_have_the_same_thread(self, saver):
        """
        A session's checkpoints and those of a graph don't see each other.
        """
        sessions, graph = SessionSaver(saver), ab(saver)
        await sessions.aput("t", {"n": 0})
        await graph.ainvoke({}, at("t"))
        await sessions.aput("t", {"n": 1})

        assert (await graph.aget_state(at("t"))).values["foo"] == "b"
        assert [p.state["n"] for p in await sessions.alist("t")] == [1, 0]
