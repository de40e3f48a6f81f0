"""Savers around every saver: measured, limited, guarded, audited."""

import json
import random
import string
from contextlib import suppress

import anyio
import pytest

from actorgraph import (
    AuditedSaver,
    AuditLog,
    Command,
    GuardedSaver,
    InvalidConfigError,
    LimitedSaver,
    MeteredSaver,
    SaverCall,
    acting_as,
    current_principal,
    verify_audit_log,
)
from actorgraph.errors import AccessDeniedError, AuditError, CheckpointSizeError, NotSupportedError
from tests.savers.test_langgraph_methods import checkpoint, put
from tests.savers.test_thread_operations import asking
from tests.support.graphs import ab, at, compiled, history, writer

pytestmark = [pytest.mark.every_saver, pytest.mark.every_loop]


def noise(size: int) -> str:
    """Text that takes about as much as it is long, wherever values are compressed."""
    return "".join(random.Random(size).choices(string.ascii_letters, k=size))


MODES = ["sync", "async", "exit"]


class TestMetrics:
    @pytest.mark.promise("S203")
    async def test_every_operation_is_reported(self, store):
        """
        The hook hears of each put, get, list and removal: how long it took, its bytes, whether it
        went well.
        """
        told: list[SaverCall] = []
        async with MeteredSaver(store.saver(), told.append) as saver:
            graph = ab(saver)
            await graph.ainvoke({"foo": noise(1_400)}, at())
            await history(graph, at())
            await saver.acopy_thread("t", "u")
            await saver.alist_threads()
            await saver.acount("t")
            await saver.adelete_thread("t")
            with suppress(Exception):
                await saver.acopy_thread("u", "u2")
                await saver.acopy_thread("u", "u2")

        ops = {call.op for call in told}
        assert ops >= {"put", "get", "list", "copy", "list_threads", "count", "delete"}
        assert {call.backend for call in told} == {type(store.saver()).__name__}
        assert all(call.duration_s >= 0 for call in told)
        assert [call.ok for call in told if call.op == "copy"] == [True, True, False]
        first = next(call for call in told if call.op == "put")
        assert 1000 < first.bytes < 5000
        assert max(call.bytes for call in told if call.op == "list") > 2000

    async def test_a_failing_hook_is_ignored(self, store):
        """
        An error of the hook reaches no run.
        """

        def hook(_: SaverCall) -> None:
            raise RuntimeError

        async with MeteredSaver(store.saver(), hook) as saver:
            assert (await ab(saver).ainvoke({}, at()))["bar"] == ["a", "b"]


class TestLimits:
    @pytest.mark.promise("S200")
    async def test_only_the_large_save_fails(self, store):
        """
        Of 64 runs at once the one whose save is too large fails, and goes on from its last
        checkpoint later; the others are stored.
        """
        failed: list[str] = []

        async def run(graph, number: int) -> None:
            try:
                await graph.ainvoke({"foo": "x"}, at(f"t{number}"))
            except CheckpointSizeError:
                failed.append(f"t{number}")

        def grow(state, config) -> dict:
            poison = config["configurable"]["thread_id"] == "t7"
            return {"bar": [noise(50_000 if poison else 10)]}

        nodes, edges = {"a": writer("a"), "grow": grow}, [("__start__", "a"), ("a", "grow")]
        inner = store.saver()
        async with LimitedSaver(inner, max_bytes=20_000) as saver:
            graph = compiled(nodes, edges, checkpointer=saver)
            async with anyio.create_task_group() as group:
                for number in range(64):
                    group.start_soon(run, graph, number)
            counts = [await saver.acount(f"t{n}") for n in range(64)]
            there = await graph.aget_state(at("t7"))

        assert failed == ["t7"]
        assert counts == [*[4] * 7, 3, *[4] * 56]
        assert there.next == ("grow",)

    @pytest.mark.promise("S200")
    async def test_a_soft_limit_warns(self, store, caplog):
        """
        Above the soft limit a save is stored and logged.
        """
        async with LimitedSaver(store.saver(), warn_bytes=5_000, max_bytes=90_000) as saver:
            await ab(saver).ainvoke({"bar": [noise(9_000)]}, at())

        assert "save.large" in caplog.text

    @pytest.mark.parametrize("limits", [{"max_bytes": 0}, {"max_bytes": 1, "warn_bytes": 2}])
    def test_limits_out_of_range(self, store, limits):
        """
        Limits that can't be are refused.
        """
        with pytest.raises(InvalidConfigError):
            LimitedSaver(store.saver(), **limits)


def own(principal: str | None, thread_id: str | None, op: str) -> bool:
    """Threads belong to the one whose name they begin with; the operator may do the rest."""
    if thread_id is None:
        return principal == "operator"
    return principal is not None and thread_id.startswith(f"{principal}-")


@pytest.mark.one_loop
class TestGuard:
    @pytest.fixture
    async def saver(self, store):
        """A guarded saver with a thread of Ada's and one of Bob's."""
        async with GuardedSaver(store.saver(), own) as saver:
            for name in ("ada", "bob"):
                with acting_as(name):
                    await ab(saver).ainvoke({"foo": "x"}, at(f"{name}-1"))
            yield saver

    @pytest.mark.promise("S207")
    @pytest.mark.parametrize("durability", MODES)
    async def test_own_threads_work_in_full(self, saver, durability):
        """
        A guarded saver is a checkpointer: runs, questions, answers, history and updates of one's
        own threads are as ever.
        """
        with acting_as("ada"):
            graph = asking(saver)
            await graph.ainvoke({"foo": "x"}, at("ada-2"), durability=durability)
            done = await graph.ainvoke(Command(resume="me"), at("ada-2"), durability=durability)
            await graph.aupdate_state(at("ada-2"), {"foo": "!"})
            streamed = [c async for c in graph.astream({"foo": "y"}, at("ada-3"))]
            await saver.acopy_thread("ada-2", "ada-4")
            assert await saver.alist_threads() == [f"ada-{n}" for n in range(1, 5)]

        assert done["bar"][-2:] == ["me", "z"]
        assert streamed

    @pytest.mark.first_case
    @pytest.mark.promise("S207")
    @pytest.mark.parametrize(
        "act",
        [
            lambda saver: saver.aget_tuple(at("bob-1")),
            lambda saver: saver.acount("bob-1"),
            lambda saver: saver.alist_metadata("bob-1"),
            lambda saver: anext(saver.alist(at("bob-1"))),
            lambda saver: put(saver, at("bob-1"), 9),
            lambda saver: saver.aput_writes(
                at("bob-1", checkpoint_id=checkpoint(0)["id"]), [("foo", 1)], checkpoint(0)["id"]
            ),
            lambda saver: saver.adelete_thread("bob-1"),
            lambda saver: saver.aprune(["bob-1"]),
            lambda saver: saver.adelete_by_run("bob-1", "x"),
            lambda saver: saver.adelete_checkpoints("bob-1", []),
            lambda saver: saver.acopy_thread("bob-1", "ada-2"),
            lambda saver: saver.acopy_thread("ada-1", "bob-2"),
            lambda saver: saver.avacuum(),
            lambda saver: ab(saver).ainvoke({"foo": "y"}, at("bob-1")),
            lambda saver: ab(saver).ainvoke({"foo": "y"}, at("bob-2")),
            lambda saver: ab(saver).aget_state(at("bob-1")),
            lambda saver: ab(saver).aupdate_state(at("bob-1"), {"foo": "y"}),
            lambda saver: ab(saver).afork_state("bob-1", "ada-2"),
            lambda saver: ab(saver).afork_state("ada-1", "bob-2"),
        ],
    )
    async def test_others_threads_are_out_of_reach(self, saver, act):
        """
        On another's thread every operation is a PermissionError, and changes nothing.
        """
        with acting_as("bob"):
            before = await history(ab(saver), at("bob-1"))
        with acting_as("ada"), pytest.raises(PermissionError) as refused:
            await act(saver)
        assert isinstance(refused.value, AccessDeniedError)

        with acting_as("bob"):
            assert await history(ab(saver), at("bob-1")) == before
            assert await saver.alist_threads() == ["bob-1"]

    @pytest.mark.promise("S207")
    async def test_lists_show_ones_own(self, saver):
        """
        Lists over all threads show one's own alone, as many as were asked for; without a name
        nothing.
        """
        with acting_as("ada"):
            assert await saver.alist_threads() == ["ada-1"]
            mine = [p async for p in saver.alist(None, limit=3)]
            await saver.adelete_for_runs([p.metadata["run_id"] for p in mine])
            assert await saver.aretention(0, 0) == 0
        assert current_principal() is None
        assert await saver.alist_threads() == []

        assert len(mine) == 3
        assert {p.config["configurable"]["thread_id"] for p in mine} == {"ada-1"}
        with acting_as("bob"):
            assert await saver.acount("bob-1") == 4

    @pytest.mark.promise("S207")
    async def test_the_operator_keeps_house(self, saver, tmp_path):
        """
        Operations on all threads are checked without a thread.
        """
        with acting_as("operator"):
            await saver.avacuum()
            with suppress(NotSupportedError):
                await saver.abackup(tmp_path / "copy.db")
        if saver.copy_to_file is not None:
            with acting_as("ada"), pytest.raises(PermissionError):
                await saver.abackup(tmp_path / "other.db")

    @pytest.mark.promise("S207")
    def test_blocking(self, store):
        """
        The name reaches the saver from blocking programs too, on any host.
        """
        with GuardedSaver(store.saver(), own) as saver:
            graph = ab(saver)
            with acting_as("ada"):
                graph.invoke({"foo": "x"}, at("ada-1"))
                with pytest.raises(PermissionError):
                    graph.invoke({"foo": "x"}, at("bob-1"))
            with pytest.raises(PermissionError):
                graph.get_state(at("ada-1"))


def entries(log: AuditLog) -> list[dict]:
    """Everything in a log."""
    return [json.loads(line) for line in log.path.read_text().splitlines()]


class TestAudit:
    @pytest.fixture
    def log(self, tmp_path):
        log = AuditLog(tmp_path / "audit.log")
        yield log
        log.close()

    @pytest.mark.promise("S208")
    async def test_every_access_has_an_entry(self, store, log):
        """
        Reads, saves and removals are noted with time, actor, operation, thread and id; a resume
        with the questions and who answered them.
        """
        async with AuditedSaver(store.saver(), log) as saver:
            graph = asking(saver)
            with acting_as("ada"):
                asked = await graph.ainvoke({"foo": "x"}, at())
            with acting_as("reviewer"):
                await graph.ainvoke(Command(resume="me"), at())
            with acting_as("bob"):
                await saver.adelete_thread("t")
                await saver.alist_threads()

        found = entries(log)
        (question,) = asked["__interrupt__"]
        saved = {(e["actor"], e["op"]) for e in found if e["thread"] == "t"}
        assert saved >= {("ada", "get"), ("ada", "put"), ("bob", "delete"), ("reviewer", "put")}
        assert [(e["actor"], e["id"]) for e in found if e["op"] == "resume"] == [
            ("reviewer", question.id)
        ]
        assert {e["actor"] for e in found if e["op"] in {"put", "put_writes", "end"}} == {
            "ada",
            "reviewer",
        }
        assert all(e["time"].endswith("+00:00") and (e["id"] or e["op"] != "put") for e in found)
        assert verify_audit_log(log.path).number == len(found) == log.head.number

    @pytest.mark.promise("S208")
    async def test_refusals_are_noted(self, store, log):
        """
        Around a guard the log has what that refused.
        """
        async with AuditedSaver(GuardedSaver(store.saver(), own), log) as saver:
            with acting_as("ada"), pytest.raises(PermissionError):
                await saver.adelete_thread("bob-1")
            with acting_as("ada"), pytest.raises(PermissionError):
                await saver.acount("bob-1")

        assert [(e["op"], e["actor"], e["thread"]) for e in entries(log)] == [
            ("denied delete", "ada", "bob-1"),
            ("denied count", "ada", "bob-1"),
        ]

    @pytest.mark.promise("S208")
    async def test_without_a_log_nothing_happens(self, store, log, monkeypatch):
        """
        An operation that can't be noted neither stores nor reads.
        """

        def full(self, line: bytes) -> None:
            raise OSError(28, "No space left on device")

        async with AuditedSaver(store.saver(), log) as saver:
            await ab(saver).ainvoke({}, at())
            with monkeypatch.context() as patch:
                patch.setattr(AuditLog, "_write", full)
                with pytest.raises(AuditError):
                    await saver.adelete_thread("t")
                with pytest.raises(AuditError):
                    await saver.acount("t")
            assert await saver.acount("t") == 4
