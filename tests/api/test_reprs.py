"""Reprs for terminals and notebooks: short, with the place of a saver, without secrets."""

import time

import pytest

from actorgraph import (
    ActorSystem,
    Codec,
    Command,
    InMemoryCache,
    InMemorySaver,
    Interrupt,
    PostgresSaver,
    Send,
    SqliteSaver,
    StateGraph,
    interrupt,
    task,
)
from actorgraph.checkpoints import JsonlSaver, LimitedSaver
from actorgraph.stores import InMemoryStore, PostgresStore, SqliteStore
from actorgraph.types import PregelTask, StateHistory, StateSnapshot
from tests.support.graphs import AB, ab, at, in_a_row

HOSTILE = '<script>alert("x")</script>'


def asking(saver):
    """A graph that asks a question in its second node."""

    async def ask(state):
        return {"foo": interrupt("really?")}

    async def write(state):
        return {"bar": ["b"]}

    return in_a_row({"write": write, "ask": ask}, checkpointer=saver, name="talk")


def snapshot(values, **changes):
    """A snapshot of these values."""
    made = StateSnapshot(
        values=values,
        next=("a",),
        config={"configurable": {"thread_id": "t", "checkpoint_id": "c"}},
        metadata={"step": 1, "source": "loop"},
        created_at="2026-01-01T00:00:00+00:00",
        parent_config=None,
        tasks=(),
        interrupts=(),
    )
    return made._replace(**changes)


@task
def double(n):
    """Double a number."""
    return 2 * n


class TestOneLine:
    @pytest.mark.parametrize(
        ("made", "text"),
        [
            (lambda: StateGraph(AB), "<StateGraph of AB: 0 nodes, 0 edges>"),
            (ab, "<CompiledStateGraph 'LangGraph': 2 nodes (a, b)>"),
            (
                lambda: ab(SqliteSaver("runs.db")),
                "<CompiledStateGraph 'LangGraph': 2 nodes (a, b), saver <SqliteSaver 'runs.db'>>",
            ),
            (InMemorySaver, "<InMemorySaver>"),
            (lambda: JsonlSaver("runs"), "<JsonlSaver 'runs'>"),
            (
                lambda: SqliteSaver("runs.db", codec=Codec(keys={"k": b"k" * 32})),
                "<SqliteSaver 'runs.db'>",
            ),
            (
                lambda: PostgresSaver("postgresql://ada:secret@db/runs"),
                "<PostgresSaver 'postgresql://ada@db/runs'>",
            ),
            (
                lambda: LimitedSaver(SqliteSaver("runs.db"), max_bytes=1000),
                "<LimitedSaver around <SqliteSaver 'runs.db'>>",
            ),
            (InMemoryStore, "<InMemoryStore>"),
            (lambda: SqliteStore("items.db"), "<SqliteStore 'items.db'>"),
            (
                lambda: PostgresStore("host=db password=secret dbname=items"),
                "<PostgresStore 'host=db dbname=items'>",
            ),
            (InMemoryCache, "<InMemoryCache>"),
            (lambda: double, "<TaskFunction 'double'>"),
            (lambda: Command(goto="a"), "Command(goto='a')"),
            (lambda: Send("a", {"foo": 1}), "Send(node='a', arg={'foo': 1})"),
            (lambda: Interrupt("why?", "1"), "Interrupt(value='why?', id='1')"),
            (
                lambda: ActorSystem({"chat": ab(InMemorySaver())}),
                "<ActorSystem: graphs (chat), closed, saver <InMemorySaver>>",
            ),
        ],
    )
    def test_each_says_what_matters(self, made, text):
        """
        The class, its name or place and its size; no password and no key.
        """
        assert repr(made()) == text

    async def test_a_stream(self):
        """
        It says whether it was read.
        """
        stream = ab().astream({})
        before = repr(stream)
        async with stream:
            _ = [chunk async for chunk in stream]

        assert (before, repr(stream)) == ("<ChunkStream, not read yet>", "<ChunkStream, ended>")

    async def test_an_open_system(self):
        """
        It counts the active runs.
        """
        async with ActorSystem({"chat": ab(InMemorySaver())}) as system:
            assert repr(system) == (
                "<ActorSystem: graphs (chat), open, 0 active runs, saver <InMemorySaver>>"
            )

    @pytest.mark.parametrize("kind", [Command, Send, Interrupt])
    def test_a_long_value_is_cut(self, kind):
        """
        A Command, a Send and an Interrupt stay readable.
        """
        long = "x" * 100_000
        made = Command(update={"foo": long}) if kind is Command else kind("a", long)

        assert len(repr(made)) < 250


class TestSnapshots:
    async def test_a_paused_thread(self, saver):
        """
        A line has the thread, the step, the next nodes, the question, the sizes of the values.
        """
        graph = asking(saver)
        await graph.ainvoke({"foo": "hello"}, at())
        found = await graph.aget_state(at())

        assert repr(found) == (
            "<StateSnapshot thread='t' step=1 next=('ask',) asks='really?' "
            "values={foo: str[5], bar: list[1]}>"
        )
        assert repr(found.tasks[0]).startswith("<PregelTask 'ask' asks='really?' id=")

    async def test_a_failed_and_an_unknown_thread(self, saver):
        """
        The failed node is named; an unknown thread has no checkpoint.
        """

        async def fails(state):
            raise ValueError("no")

        graph = in_a_row({"fails": fails}, checkpointer=saver)
        with pytest.raises(ValueError, match="no"):
            await graph.ainvoke({}, at())

        assert " failed='fails' " in repr(await graph.aget_state(at()))
        assert repr(await graph.aget_state(at("none"))) == (
            "<StateSnapshot thread='none' checkpoint=None>"
        )

    def test_a_large_one_costs_less_than_a_millisecond(self):
        """
        A state of megabytes is not read.
        """
        large = snapshot({"a": "x" * 1_000_000, "b": list(range(100_000)), "c": {"d": "x" * 10**6}})
        times = list[float]()
        for _ in range(5):
            began = time.perf_counter()
            assert len(repr(large)) < 200
            assert len(large._repr_html_()) < 2000
            times.append(time.perf_counter() - began)

        assert min(times) < 0.001

    def test_fields_of_other_kinds_raise_nothing(self):
        """
        A snapshot that a program made of anything still has a repr.
        """
        strange: object = 3

        assert repr(snapshot({}, config=strange)) == "<StateSnapshot>"

    def test_rich_gets_the_same_parts(self):
        """
        `rich` prints names and values without importing anything of it.
        """
        assert dict(snapshot({"foo": "ab"}).__rich_repr__()) == {
            "thread": "t",
            "step": 1,
            "next": ("a",),
            "values": "{foo: str[2]}",
        }


class TestNotebooks:
    def test_a_snapshot_is_a_table(self):
        """
        Each value has a row with its size and an excerpt.
        """
        shown = snapshot({"foo": "ab", "n": 3})._repr_html_()

        assert "thread <b>t</b>" in shown
        assert shown.count("<tr>") == 3
        assert "str[2]" in shown
        assert "&#x27;ab&#x27;" in shown

    async def test_a_history_is_a_table(self, saver):
        """
        `StateHistory` of a history has one row per checkpoint, newest first.
        """
        graph = asking(saver)
        await graph.ainvoke({"foo": "hello"}, at())
        history = StateHistory([each async for each in graph.aget_state_history(at())])
        html = history._repr_html_()

        assert repr(history).splitlines()[0] == "<StateHistory: 3 snapshots>"
        assert html.count("<tr>") == 4
        assert html.index("really?") < html.index("__start__")
        assert isinstance(history, list)

    @pytest.mark.parametrize("place", ["key", "value", "next", "thread", "question", "error"])
    def test_a_hostile_value_is_harmless(self, place):
        """
        A key, a value or a name that has HTML in it is shown as text.
        """
        values = {HOSTILE: HOSTILE} if place in ("key", "value") else {}
        config = {"configurable": {"thread_id": HOSTILE, "checkpoint_id": HOSTILE}}
        failed = PregelTask("1", HOSTILE, (), error=HOSTILE)
        made = snapshot(
            values,
            next=(HOSTILE,),
            config=config,
            interrupts=(Interrupt(HOSTILE),) if place == "question" else (),
            tasks=(failed,) if place == "error" else (),
            created_at=HOSTILE,
        )
        html = made._repr_html_() + StateHistory([made])._repr_html_()

        assert "<script" not in html
        assert "&lt;script" in html

    def test_a_graph_is_a_drawing(self):
        """
        A compiled graph gives its repr and an SVG picture, in which names are escaped.
        """

        async def node(state):
            return {}

        shown = in_a_row({HOSTILE.replace(":", ""): node})._repr_mimebundle_()

        assert shown["text/plain"].startswith("<CompiledStateGraph 'LangGraph': 1 node")
        assert "<script" not in shown["image/svg+xml"]
