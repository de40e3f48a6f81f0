"""Threads that LangGraph has run go on here: values, questions, Sends, joins, graphs inside."""

import dataclasses
import hashlib
import sqlite3
from contextlib import closing
from itertools import pairwise
from typing import Annotated, TypedDict

import pytest
from langgraph.channels import DeltaChannel as TheirDelta
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver as LangGraphSaver
from langgraph.func import entrypoint as their_entrypoint
from psycopg import sql

from actorgraph import Command, InMemorySaver, InvalidConfigError, SqliteSaver, entrypoint
from actorgraph.channels import DeltaChannel
from actorgraph.migrate import amigrate, migrate
from actorgraph.migrate.__main__ import main
from tests.migrate.programs import ANSWERS, OURS, STATES, THEIRS, Log, program, says, shown
from tests.support.graphs import ab, at, history


@dataclasses.dataclass
class Order:
    item: str


@pytest.fixture(params=["memory", "sqlite"])
async def target(request, tmp_path):
    """A saver of ours."""
    made = InMemorySaver() if request.param == "memory" else SqliteSaver(tmp_path / "ours.db")
    async with made as saver:
        yield saver


async def ends(graph, thread: str):
    """The values of a thread once it has had the answers that it waits for."""
    for answer in ANSWERS[STATES[thread] :]:
        await graph.ainvoke(Command(resume=answer), at(thread))
    return (await graph.aget_state(at(thread))).values


class TestMoving:
    async def test_every_thread_goes_on_to_the_right_end(self, filled, target):
        """
        Threads that wait for answers, in a Send and in a graph inside, take them here; each
        history has the values, the nodes and the steps that LangGraph shows.
        """
        report = await amigrate(filled.path, target)

        graph = program(OURS, target)
        assert [t.waits for t in report.threads] == [False, True, True, True]
        assert (report.refused, report.left) == ((), 0)
        assert [t.notes for t in report.threads] == [()] * 4
        assert all(t.moved == t.checkpoints for t in report.threads)
        for thread in STATES:
            found = await history(graph, at(thread))
            listed = await target.alist_metadata(thread, checkpoint_ns="", order="newest")
            assert shown(found) == filled.histories[thread]
            assert [set(row.next) for row in listed] == [{t.name for t in p.tasks} for p in found]
        for thread in STATES:
            assert await ends(graph, thread) == filled.values["finished"]

    async def test_threads_of_exit_mode(self, filled_at_exit, target):
        """
        Threads of which only the end of each run was stored go on too.
        """
        await amigrate(filled_at_exit.path, target)

        graph = program(OURS, target)
        for thread in STATES:
            assert await ends(graph, thread) == filled_at_exit.values["finished"]

    async def test_questions_have_our_ids(self, filled, target):
        """
        A question that waits is answered by the id that the state shows.
        """
        await amigrate(filled.path, target, threads=["first question", "inside"])
        graph = program(OURS, target)

        for thread in ("first question", "inside"):
            (asked,) = (await graph.aget_state(at(thread))).interrupts
            await graph.ainvoke(Command(resume={asked.id: "mine"}), at(thread))

        (second,) = (await graph.aget_state(at("first question"))).interrupts
        assert second.value == "second"
        assert (await graph.aget_state(at("inside"))).next == ()

    async def test_the_source_is_not_changed(self, filled, target):
        """
        The source's bytes are the same before and after.
        """
        before = hashlib.sha256(filled.path.read_bytes()).hexdigest()

        await amigrate(filled.path, target)

        assert hashlib.sha256(filled.path.read_bytes()).hexdigest() == before

    async def test_a_second_call_moves_nothing(self, filled, target):
        """
        Checkpoints that are there already are left alone, and missing ones are added.
        """
        await amigrate(filled.path, target, threads=["inside"])
        again = await amigrate(filled.path, target)
        third = await amigrate(filled.path, target)

        assert [t.moved == 0 for t in again.threads] == [False, False, True, False]
        assert [t.moved for t in third.threads] == [0, 0, 0, 0]

    async def test_half_a_thread_is_completed(self, filled, target):
        """
        After a stop in the middle the next call adds the checkpoints that are missing.
        """
        await amigrate(filled.path, target, threads=["finished"])
        graph = program(OURS, target)
        every = await history(graph, at("finished"))
        newest = [s.config["configurable"]["checkpoint_id"] for s in every[:2]]
        await target.adelete_checkpoints("finished", newest)

        report = await amigrate(filled.path, target, threads=["finished"])

        assert report.threads[0].moved == 2
        assert shown(await history(graph, at("finished"))) == filled.histories["finished"]

    async def test_a_thread_that_has_gone_on_is_left_alone(self, filled, target):
        """
        A thread that has run here since is not touched, and the report says why.
        """
        await amigrate(filled.path, target)
        graph = program(OURS, target)
        for answer in "AB":
            await graph.ainvoke(Command(resume=answer), at("first question"))

        report = await amigrate(filled.path, target)

        (refused,) = report.refused
        assert refused.thread_id == "first question"
        assert "was continued in the target" in refused.problems[0]

    async def test_a_dry_run_stores_nothing(self, filled, target):
        """
        It reports what would move; progress is called for each thread, and a limit holds.
        """
        seen = []

        report = await amigrate(
            filled.path, target, dry_run=True, threads_max=3, progress=seen.append
        )

        assert [t.thread_id for t in seen] == sorted(STATES)[:3]
        assert (len(report.threads), report.left) == (3, 1)
        assert str(report).startswith("would move ")
        assert await target.alist_threads() == []

    def test_blocking(self, filled, tmp_path):
        """
        The blocking twin, and the command line.
        """
        path = tmp_path / "ours.db"
        with SqliteSaver(path) as saver:
            assert migrate(filled.path, saver, threads=["inside"]).threads[0].moved > 0

        assert main([str(filled.path), str(path), "--dry-run"]) == 0
        assert main([str(filled.path), str(path)]) == 0

        with SqliteSaver(path) as saver:
            assert saver.list_threads() == sorted(STATES)


class TestBranches:
    async def test_forks_with_equal_numbers(self, tmp_path, target):
        """
        Two branches of LangGraph's give one number to different values; each keeps its own.
        """
        path = tmp_path / "lg.db"
        with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
            theirs = program(THEIRS, LangGraphSaver(connection))
            theirs.invoke({"log": ["in"]}, at())
            first = [*theirs.get_state_history(at())][1]
            for text in ("x", "y"):
                theirs.update_state(first.config, {"log": [text], "n": 1}, as_node="plan")
            expected = shown([*theirs.get_state_history(at())])

        report = await amigrate(path, target)

        graph = program(OURS, target)
        assert report.refused == ()
        assert [v for v, *_ in shown(await history(graph, at()))] == [v for v, *_ in expected]

    async def test_a_growing_list_is_stored_once(self, tmp_path):
        """
        A thread of LangGraph's holds a list once per checkpoint; here its items are stored once.
        """
        path, ours = tmp_path / "lg.db", tmp_path / "ours.db"
        with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
            theirs = chat(THEIRS, LangGraphSaver(connection))
            for n in range(60):
                theirs.invoke({"log": [f"{n}" * 400]}, at())

        async with SqliteSaver(ours) as saver:
            await amigrate(path, saver)
            every = await history(chat(OURS, saver), at())

        size = sum(f.stat().st_size for f in tmp_path.glob("ours.db*"))
        assert len(every[0].values["log"]) == 120
        assert size < path.stat().st_size / 4


def chat(by, saver):
    """A graph with one node that answers."""
    builder = by.state_graph(Log)
    builder.add_node("answer", says("ok"))
    builder.add_edge("__start__", "answer")
    return builder.compile(checkpointer=saver)


class TestSources:
    async def test_postgres(self, postgres, schema, target):
        """
        The threads of LangGraph's PostgresSaver move as well.
        """
        with postgres.connect() as connection:
            named = sql.Composed([sql.SQL("CREATE SCHEMA "), sql.Identifier(schema)])
            connection.execute(named)
        url = f"{postgres.url}&options=-csearch_path%3D{schema}"
        with PostgresSaver.from_conn_string(url) as saver:
            saver.setup()
            theirs = program(THEIRS, saver)
            theirs.invoke({"log": ["in"]}, at("first question"))
            expected = shown([*theirs.get_state_history(at("first question"))])

        report = await amigrate(url, target)

        graph = program(OURS, target)
        assert report.threads[0].waits
        assert shown(await history(graph, at("first question"))) == expected
        assert (await ends(graph, "first question"))["log"][-1] == "end"

    async def test_files_without_checkpoints_are_refused(self, tmp_path, target):
        """
        A file that isn't there, or has no checkpoints of LangGraph, is refused.
        """
        (tmp_path / "empty.db").write_bytes(b"")
        (tmp_path / "text.db").write_bytes(b"no database, not at all" * 9)

        for name in ("none.db", "empty.db", "text.db"):
            with pytest.raises(InvalidConfigError, match=name):
                await amigrate(tmp_path / name, target)

    async def test_the_saver_goes_on_with_its_own_threads(self, filled, target):
        """
        A saver that has threads of its own keeps them.
        """
        await ab(target).ainvoke({"bar": []}, at("own"))

        await amigrate(filled.path, target)

        assert await target.alist_threads() == sorted([*STATES, "own"])


class TestWhatCanNotMove:
    async def test_an_unknown_type_holds_its_thread(self, tmp_path, target):
        """
        A thread with a value of a type that isn't allowed is left out as a whole, by path; with
        the type allowed it moves.
        """
        path = tmp_path / "lg.db"
        with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
            theirs = chat(THEIRS, LangGraphSaver(connection))
            theirs.invoke({"log": [Order("x")]}, at("typed"))
            theirs.invoke({"log": ["x"]}, at("plain"))

        report = await amigrate(path, target)
        allowed = await amigrate(path, target, types=[Order])

        (refused,) = report.refused
        assert refused.thread_id == "typed"
        assert "['log'][0]: it has the type" in refused.problems[0]
        assert "typed: can't be moved: checkpoint" in str(report)
        assert allowed.refused == ()
        every = await history(chat(OURS, target), at("plain"))
        assert every[0].values["log"] == ["x", "ok"]


def letters(by, rule, saver, broken):
    """A row of nodes that write to a DeltaChannel; one fails beside one that works."""

    class State(TypedDict, total=False):
        log: Annotated[list, rule]

    def node(name):
        def call(_):
            if name == "d" and broken:
                raise ValueError("broken")
            return {"log": name}

        return call

    builder = by.state_graph(State)
    for name in ("a", "b", "c", "d", "works"):
        builder.add_node(name, node(name))
    for start, end in pairwise(["__start__", *"abcd"]):
        builder.add_edge(start, end)
    builder.add_edge("c", "works")
    return builder.compile(checkpointer=saver)


def joined(old, writes):
    return [*(old or []), *writes]


class TestOtherThreads:
    async def test_a_failed_thread_with_deltas(self, tmp_path, target):
        """
        Values that LangGraph folds from its ledger are the same here; a failed task runs again
        and what had finished beside it doesn't.
        """
        path = tmp_path / "lg.db"
        with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
            rule = TheirDelta(joined, snapshot_frequency=3)
            theirs = letters(THEIRS, rule, LangGraphSaver(connection), broken=True)
            with pytest.raises(ValueError, match="broken"):
                theirs.invoke({"log": "in"}, at())
            expected = [s.values for s in theirs.get_state_history(at())]

        await amigrate(path, target)

        graph = letters(OURS, DeltaChannel(joined, snapshot_frequency=3), target, broken=False)
        assert [s.values for s in await history(graph, at())] == expected
        waiting = await graph.aget_state(at())
        assert (waiting.failed_node, "broken" in str(waiting.error)) == ("d", True)
        assert (await graph.ainvoke(None, at()))["log"] == ["in", *"abcd", "works"]

    async def test_an_entrypoint(self, tmp_path, target):
        """
        With the graph given, the question of an entrypoint is found and answered.
        """
        path = tmp_path / "lg.db"
        with closing(sqlite3.connect(path, check_same_thread=False)) as connection:

            @their_entrypoint(checkpointer=LangGraphSaver(connection))
            def flow(given):
                return [given, THEIRS.interrupt("q")]

            flow.invoke(1, at())

        @entrypoint(checkpointer=target)
        def flow(given):
            return [given, OURS.interrupt("q")]

        report = await amigrate(path, target, graph=flow)

        assert report.threads[0].notes == ()
        assert [i.value for i in (await flow.aget_state(at())).interrupts] == ["q"]
        assert await flow.ainvoke(Command(resume="yes"), at()) == [1, "yes"]
