"""`actorgraph check`: stored threads against a new version of their graph."""

import json
import operator
import runpy
from typing import Annotated, TypedDict

import anyio
import pytest

from actorgraph import START, ActorSystem, SqliteSaver, StateGraph, interrupt
from actorgraph.cli.command_line import main
from actorgraph.values.checked_threads import ThreadCheckReport
from actorgraph.values.graph_changes import ResumeVerdict
from tests.cli.command_runs import Ran
from tests.support.graphs import at

PROGRAM = """
import operator
from typing import Annotated, TypedDict
from actorgraph import START, ActorSystem, InMemorySaver, StateGraph, interrupt
from actorgraph.types import Migration

class State(TypedDict, total=False):
    log: Annotated[list, operator.add]

def graph_of(asks, books, **options):
    builder = StateGraph(State)
    builder.add_node("fetch", lambda state: {"log": ["fetch"]})
    builder.add_node(asks, lambda state: {"log": [interrupt("ok?")]})
    builder.add_node(books, lambda state: {"log": ["book"]})
    builder.add_edge(START, "fetch").add_edge(START, asks).add_edge("fetch", books)
    return builder.compile(name="shop", **options)

first = graph_of("ask", "book")
second = graph_of("ask", "reserve")
third = graph_of("review", "reserve")
fixed = graph_of(
    "review",
    "reserve",
    migrations=[Migration(nodes={"ask": "review", "book": "reserve"})],
)
system = ActorSystem({"shop": fixed}, saver=InMemorySaver())
"""


class State(TypedDict, total=False):
    log: Annotated[list, operator.add]


@pytest.fixture
def check(tmp_path, capsys):
    """Check a graph of the program against the database; with "json" its report."""
    (tmp_path / "shop.py").write_text(PROGRAM)

    def run(name, *more):
        code = main(["check", f"{tmp_path}/shop.py:{name}", "--db", f"{tmp_path}/runs.db", *more])
        return Ran(code, *capsys.readouterr())

    return run


@pytest.fixture
def graphs(tmp_path, check):
    """The program's graphs, by name."""
    return runpy.run_path(str(tmp_path / "shop.py"))


def begin(graph, saver, *threads):
    """Run threads of a graph until they ask."""
    over = graph.copy(update={"checkpointer": saver})
    for thread in threads:
        over.invoke({"log": []}, at(thread))


def group_of(report, verdict):
    """The only group with a verdict."""
    (found,) = [group for group in report.groups if group.verdict is verdict]
    return found


class TestThreads:
    def test_threads_alike_are_one_group(self, tmp_path, graphs, check):
        """
        Threads are counted by the version that stored them and by what becomes of them, with ids,
        reasons and migrations; refused ones come first and make the exit code 1.
        """
        with SqliteSaver(tmp_path / "runs.db") as saver:
            begin(graphs["first"], saver, "a1", "a2", "a3", "a4")
            begin(graphs["second"], saver, "b1", "b2")
            begin(graphs["third"], saver, "c1")

        ran = check("second", "--json")
        report = ran.json(ThreadCheckReport)

        assert ran.code == 1
        assert [(group.count, group.verdict) for group in report.groups] == [
            (4, "refused"),
            (1, "refused"),
            (2, "fits"),
        ]
        assert (report.threads, report.waiting, report.refused) == (7, 7, 5)
        assert report.groups[0].examples == ("a1", "a2", "a3")
        assert report.groups[0].stored_graph.startswith("shop:")
        assert "Migration(nodes={'book': 'its new name'})" in report.groups[0].reasons[0].cure

    def test_migrations_let_threads_go_on(self, tmp_path, graphs, check):
        """
        With its migrations written the check ends with 0, and says what they change.
        """
        with SqliteSaver(tmp_path / "runs.db") as saver:
            begin(graphs["first"], saver, "a1")
            begin(graphs["third"], saver, "c1")

        ran = check("fixed")
        report = check("system", "--json").json(ThreadCheckReport)

        assert ran.code == 0
        assert "1 go on by migrations" in ran.out
        assert group_of(report, ResumeVerdict.MIGRATED).examples == ("a1",)
        assert group_of(report, ResumeVerdict.FITS).examples == ("c1",)

    def test_finished_threads_are_a_group_of_their_own(self, tmp_path, check):
        """
        A thread at its end is a group of its own: nothing in it waits for a node that is gone.
        """
        builder = StateGraph(State).add_node("other", lambda state: {"log": ["x"]})
        graph = builder.add_edge(START, "other").compile(name="shop")
        with SqliteSaver(tmp_path / "runs.db") as saver:
            begin(graph, saver, "t1")

        report = check("first", "--json").json(ThreadCheckReport)

        assert (report.threads, report.waiting, report.refused) == (1, 0, 0)

    def test_threads_of_other_graphs_are_counted(self, tmp_path, check):
        """
        A thread of a graph with another name isn't checked; the report counts it by that name.
        """
        builder = StateGraph(State).add_node("bill", lambda state: {"log": [interrupt("?")]})
        with SqliteSaver(tmp_path / "runs.db") as saver:
            begin(builder.add_edge(START, "bill").compile(name="billing"), saver, "t1", "t2")

        ran = check("first")

        assert ran.code == 0
        assert "2 threads of another graph, billing: not checked" in ran.out
        assert check("first", "--json").json(ThreadCheckReport).other_graphs == {"billing": 2}

    def test_a_prefix_selects_threads(self, tmp_path, graphs, check):
        """
        With --prefix only threads whose ids begin with it are looked at.
        """
        with SqliteSaver(tmp_path / "runs.db") as saver:
            begin(graphs["first"], saver, "a1", "b1")

        assert check("first", "--prefix", "b", "--json").json(ThreadCheckReport).threads == 1

    def test_the_text_names_reasons_and_migrations_once(self, tmp_path, graphs, check):
        """
        The text has each advice once per group, and each migration once at its end.
        """
        with SqliteSaver(tmp_path / "runs.db") as saver:
            begin(graphs["first"], saver, "a1")

        shown = check("third").out

        assert shown.startswith("1 thread, 1 with something left to run, 1 refused")
        assert shown.count("did you mean") <= 2
        assert shown.count("\n  Migration(nodes={'ask': 'its new name'}),") == 1
        assert shown.count("\n  Migration(nodes={'book': 'its new name'}),") == 1


class TestOtherParts:
    def test_a_subgraph_that_waits_is_checked(self, tmp_path, check):
        """
        A question in a subgraph whose node has another name is a reason, with the subgraph's
        place.
        """

        def graph_of(name):
            inner = StateGraph(State).add_node(name, lambda state: {"log": [interrupt("?")]})
            below = inner.add_edge(START, name).compile()
            outer = StateGraph(State).add_node("sub", below).add_edge(START, "sub")
            return outer.compile(name="shop")

        with SqliteSaver(tmp_path / "runs.db") as saver:
            begin(graph_of("ask"), saver, "t1")
        (tmp_path / "shop.py").write_text(
            PROGRAM
            + """
inner = StateGraph(State).add_node("review", lambda state: {"log": [interrupt("?")]})
below = inner.add_edge(START, "review").compile()
outer = StateGraph(State).add_node("sub", below).add_edge(START, "sub").compile(name="shop")
"""
        )

        (group,) = check("outer", "--json").json(ThreadCheckReport).groups

        assert group.verdict is ResumeVerdict.REFUSED
        assert any("'ask'" in r.text and "(in sub)" in r.text for r in group.reasons)

    def test_a_run_whose_input_is_refused(self, tmp_path, check):
        """
        An accepted run whose input has a key that the new version doesn't have is a reason.
        """

        class Before(TypedDict, total=False):
            item: str

        async def leave():
            begun = anyio.Event()

            async def wait(state):
                begun.set()
                await anyio.sleep_forever()

            graph = StateGraph(Before).add_node("fetch", wait).add_edge(START, "fetch")
            saver = SqliteSaver(tmp_path / "runs.db")
            graphs = {"shop": graph.compile(name="shop")}
            async with ActorSystem(graphs, saver=saver, max_runs=1, reserve=0) as system:
                await system.start("shop", "t1", {"item": "tea"})
                await begun.wait()
                await system.start("shop", "t2", {"item": "milk"})
                await system.drain(timeout_s=0)

        anyio.run(leave)

        report = check("first", "--json").json(ThreadCheckReport)

        assert report.refused == 2
        assert {group.examples for group in report.groups} == {("t1",), ("t2",)}


class TestDoctor:
    def test_the_doctor_names_refused_threads(self, tmp_path, graphs, capsys):
        """
        `doctor` with a database and a program reports the threads that the program refuses.
        """
        with SqliteSaver(tmp_path / "runs.db") as saver:
            begin(graphs["first"], saver, "a1")
        words = ["doctor", f"{tmp_path}/runs.db", "--app", f"{tmp_path}/shop.py:second"]

        code = main([*words, "--json"])
        found = json.loads(capsys.readouterr().out)["findings"]

        assert code == 1
        assert [f["text"] for f in found if f["code"] == "threads.refused"] == [
            (
                f"of the threads that {graphs['first'].graph_id} has stored 1 can't go on, such as "
                "a1: the task of node 'fetch' leads to node 'book', which graph "
                f"{graphs['second'].graph_id!r} doesn't have"
            )
        ]


class TestWrongUse:
    def test_a_target_without_graphs(self, tmp_path, check):
        """
        A name that isn't a graph, a system or a dict of graphs is wrong use: exit code 2.
        """
        with SqliteSaver(tmp_path / "runs.db"):
            pass

        ran = check("PROGRAM")

        assert ran.code == 2
