"""Copies, removals and lists of threads over every saver, on threads that graphs ran."""

from typing import Annotated, Any, TypedDict

import pytest

from actorgraph import (
    END,
    START,
    Command,
    ConflictError,
    InvalidConfigError,
    StateGraph,
    StateSnapshot,
    interrupt,
)
from actorgraph.channels import DeltaChannel
from tests.savers.test_langgraph_methods import put
from tests.support.delta_histories import joined
from tests.support.graphs import AB, ab, at, chain, compiled, count, history, writer

pytestmark = [pytest.mark.every_saver, pytest.mark.every_loop]


async def ids(graph, config) -> list[str]:
    """The thread's checkpoint ids, oldest first."""
    found = await history(graph, config)
    return [point.config["configurable"]["checkpoint_id"] for point in reversed(found)]


async def runs_of(graph, config) -> list[str]:
    """The ids of the thread's runs, oldest first."""
    found = await history(graph, config)
    return list(dict.fromkeys(point.metadata["run_id"] for point in reversed(found)))


async def seen(graph, config) -> list[Any]:
    """Everything that a thread's history shows, but for the thread's id."""
    return [
        (*_places(p), p.values, p.next, p.metadata, p.created_at, p.tasks, p.interrupts)
        for p in await history(graph, config)
    ]


def _places(point: StateSnapshot) -> list[tuple[str, str] | None]:
    """Namespace and id, its own and its parent's."""
    known = [c and c["configurable"] for c in (point.config, point.parent_config)]
    return [c and (c["checkpoint_ns"], c["checkpoint_id"]) for c in known]


class Log(TypedDict, total=False):
    """A list that checkpoints store as writes."""

    log: Annotated[list[str], DeltaChannel(joined)]


def delta_log(saver) -> Any:
    """A graph with one node that adds to the list."""
    builder = StateGraph(Log).add_node("a", lambda _: {"log": ["a"]}).add_edge(START, "a")
    return builder.compile(checkpointer=saver)


def asking(saver, **options) -> Any:
    """A graph whose subgraph asks a question after a superstep of its own."""

    async def ask(state):
        return {"bar": [interrupt("who?")]}

    inner = compiled({"first": writer("first"), "ask": ask}, [(START, "first"), ("first", "ask")])
    builder = StateGraph(AB).add_node("a", writer("a")).add_node("inner", inner)
    builder.add_node("z", writer("z")).add_edge(START, "a")
    builder.add_edge("a", "inner").add_edge("inner", "z").add_edge("z", END)
    return builder.compile(checkpointer=saver, **options)


class TestThreads:
    @pytest.mark.promise("S112", "S114")
    async def test_a_list_of_them(self, saver):
        """
        Threads with checkpoints are listed, sorted; those that have lost theirs are not, nor are
        those that have none yet.
        """
        configs = [await put(saver, at(thread), 0) for thread in ("c", "a", "b", "d")]
        before = await saver.alist_threads()
        for thread in ("b", "unknown"):
            await saver.adelete_thread(thread)
        last = configs[-1]["configurable"]["checkpoint_id"]
        await saver.adelete_checkpoints("d", [last])
        await saver.aput_writes(at("e", checkpoint_id=last), [("foo", 1)], last)
        after: list[list[str]] = []

        async def look(state):
            after.append(await saver.alist_threads())

        graph = compiled({"look": look}, [(START, "look")], checkpointer=saver)
        await graph.ainvoke({}, at("f"), durability="exit")

        assert (before, after) == (["a", "b", "c", "d"], [["a", "c"]])
        assert await saver.alist_threads() == ["a", "c", "f"]

    @pytest.mark.promise("S118", "S189")
    def test_blocking_twins(self, store):
        """
        Each operation does the same without a loop.
        """
        with store.saver() as saver:
            graph = ab(saver)
            graph.invoke({"foo": "x"}, at())
            run = graph.get_state(at()).metadata["run_id"]
            saver.copy_thread(source_thread_id="t", target_thread_id="u")
            listed = saver.list_threads()
            last = graph.get_state(at("u")).config["configurable"]["checkpoint_id"]
            counts = [
                saver.prune(["u"]),
                saver.prune("u", 1),
                saver.delete_checkpoints("u", [last]),
                saver.delete_by_run("t", run),
            ]
            saver.delete_for_runs([run])

        assert (listed, counts) == (["t", "u"], [3, 0, 1, 4])


class TestDeletingRuns:
    @pytest.mark.promise("S113", "D9")
    @pytest.mark.langgraph("F-E23")
    async def test_a_later_run_stays_whole(self, saver):
        """
        Without its first run a thread has the second one's checkpoints, which go on and whose
        first has no parent.
        """
        graph = ab(saver)
        await graph.ainvoke({"foo": "x"}, at())
        await graph.ainvoke({"foo": "y"}, at())
        first, second = await runs_of(graph, at())
        latest = await graph.aget_state(at())

        removed = await saver.adelete_by_run("t", first)
        left = await history(graph, at())

        assert (removed, len(left)) == (4, 4)
        assert left[0] == latest
        assert {point.metadata["run_id"] for point in left} == {second}
        assert left[-1].parent_config is None
        assert (await graph.ainvoke({"foo": "z"}, at()))["bar"] == ["a", "b"] * 3

    @pytest.mark.promise("D9")
    async def test_a_run_in_the_middle(self, saver):
        """
        The successor of a deleted run has the nearest checkpoint that is left as its parent.
        """
        graph = ab(saver)
        for _ in range(3):
            await graph.ainvoke({"foo": "x"}, at())
        _, middle, _ = await runs_of(graph, at())

        await saver.adelete_by_run("t", middle)
        points = list(reversed(await history(graph, at())))

        assert len(points) == 8
        assert [p.parent_config for p in points[1:]] == [p.config for p in points[:-1]]

    @pytest.mark.langgraph("F-E23")
    async def test_runs_of_several_threads(self, saver):
        """
        adelete_for_runs removes the named runs wherever they are, subgraphs' rows too, and
        ignores unknown ones.
        """
        graph = asking(saver)
        for thread in ("t", "u", "v"):
            await graph.ainvoke({"foo": "x"}, at(thread))
        named = [(await runs_of(graph, at(thread)))[0] for thread in ("t", "u")]

        await saver.adelete_for_runs([*named, "unknown"])

        assert await saver.alist_threads() == ["v"]
        assert (await graph.ainvoke(Command(resume="me"), at("v")))["bar"][-2:] == ["me", "z"]

    async def test_one_id_is_not_a_list(self, saver):
        """
        A bare text instead of a list of ids is refused: it would be taken letter by letter.
        """
        with pytest.raises(InvalidConfigError, match="must be a list of ids"):
            await saver.adelete_for_runs("abc")
        with pytest.raises(InvalidConfigError, match="must be a list of ids"):
            await saver.adelete_checkpoints("t", "abc")


class TestDeletingCheckpoints:
    @pytest.mark.promise("S115", "C22", "D8")
    async def test_by_id(self, saver):
        """
        Only the namespace's own are removed and counted, unknown and repeated ids ignored.
        """
        first = await put(saver, at(), 0)
        await put(saver, first, 1)
        name = first["configurable"]["checkpoint_id"]
        point = (await saver.aget_tuple(first)).checkpoint
        inner = at(checkpoint_ns="child")
        await saver.aput(inner, point, {"source": "loop", "step": 0}, {})
        await saver.aput_writes(first, [("foo", 1)], name)

        unknown = "1f000000-0000-6000-8000-000000000000"
        removed = await saver.adelete_checkpoints("t", [name, name, unknown])

        assert removed == 1
        assert await saver.aget_tuple(first) is None
        assert (await saver.aget_tuple(at())).parent_config is None
        kept = await saver.aget_tuple(at(checkpoint_ns="child", checkpoint_id=name))
        assert kept.checkpoint["id"] == name
        assert await saver.adelete_checkpoints("t", [name], checkpoint_ns="child") == 1

    async def test_the_head(self, saver):
        """
        Without its newest checkpoints a thread goes on from the one before them, with the writes
        beside that one.
        """
        ran: list[str] = []
        graph = chain("abc", ran, checkpointer=saver)
        await graph.ainvoke({"foo": "x"}, at())
        points = await ids(graph, at())

        await saver.adelete_checkpoints("t", points[-2:])

        assert (await graph.ainvoke(None, at()))["bar"] == ["a", "b", "c"]
        assert ran == ["a", "b", "c", "c"]


class TestCopying:
    @pytest.mark.promise("S117", "S118")
    @pytest.mark.langgraph("F-E24")
    async def test_a_copy_goes_on_from_the_middle(self, saver):
        """
        A copy has the ids of the original, and a replay in it does what it does there; the
        original stays as it was.
        """
        graph = chain("abc", checkpointer=saver)
        await graph.ainvoke({"foo": "x"}, at())
        before = await seen(graph, at())

        await saver.acopy_thread(source_thread_id="t", target_thread_id="u")
        copied, points = await seen(graph, at("u")), await ids(graph, at("u"))
        there = await graph.ainvoke(None, at("u", checkpoint_id=points[2]))

        assert copied == before == await seen(graph, at())
        assert there == await graph.ainvoke(None, at(checkpoint_id=points[2]))
        assert await count(graph, at("u")) == await count(graph, at())

    @pytest.mark.promise("S117")
    @pytest.mark.langgraph("F-E24")
    async def test_a_question_of_a_subgraph_is_copied(self, saver):
        """
        Writes and namespaces come along: a copy of a waiting thread takes the answer.
        """
        graph = asking(saver)
        await graph.ainvoke({"foo": "x"}, at())

        await saver.acopy_thread("t", "u")
        copy = await graph.ainvoke(Command(resume="me"), at("u"))

        assert copy["bar"][-2:] == ["me", "z"]
        assert (await graph.aget_state(at())).next == ("inner",)
        assert await graph.ainvoke(Command(resume="me"), at()) == copy

    async def test_invalid_arguments_are_refused(self, saver):
        """
        A thread is copied neither to itself nor over another one; an unknown source is a no-op.
        """
        for thread in ("t", "u"):
            await put(saver, at(thread), 0)
        with pytest.raises(ConflictError, match="has checkpoints"):
            await saver.acopy_thread("t", "u")
        with pytest.raises(InvalidConfigError, match="itself"):
            await saver.acopy_thread("t", "t")

        await saver.acopy_thread("unknown", "v")

        assert await saver.alist_threads() == ["t", "u"]


class TestPruning:
    @pytest.mark.promise("S122", "D1", "C2")
    @pytest.mark.langgraph("F-E25")
    async def test_keep_latest(self, saver):
        """
        One checkpoint is left of ten steps; the thread goes on and can be updated.
        """
        graph = chain("abcdefghij", checkpointer=saver)
        await graph.ainvoke({"foo": "x"}, at())
        await ab(saver).ainvoke({"foo": "x"}, at("other"))
        latest = await graph.aget_state(at())

        removed = await saver.aprune(["t", "unknown"], strategy="keep_latest")
        (left,) = await history(graph, at())
        updated = await graph.aupdate_state(at(), {"bar": ["!"]})

        assert removed == 11
        assert (left.values, left.config) == (latest.values, latest.config)
        assert left.parent_config is None
        assert (await graph.aget_state(updated)).values["bar"] == [*"abcdefghij", "!"]
        assert (await graph.ainvoke({"foo": "y"}, at()))["bar"][11:] == [*"abcdefghij"]
        assert await count(graph, at("other")) == 4

    @pytest.mark.langgraph("F-E25")
    @pytest.mark.parametrize("durability", ["sync", "exit"])
    async def test_a_waiting_subgraph_is_needed(self, saver, durability):
        """
        The namespace of a call that waits stays; once the call is over, it goes.
        """
        graph = asking(saver)
        await graph.ainvoke({"foo": "x"}, at(), durability=durability)
        await saver.aprune(["t"])
        waiting = [p async for p in saver.alist(at())]

        done = await graph.ainvoke(Command(resume="me"), at(), durability=durability)
        await saver.aprune(["t"])
        over = [p async for p in saver.alist(at())]

        assert done["bar"][-2:] == ["me", "z"]
        assert [len(waiting), len(over)] == [2, 1]

    @pytest.mark.promise("S123")
    @pytest.mark.langgraph("F-E25")
    async def test_delete(self, saver):
        """
        The named threads are gone, with their writes and subgraphs; others stay.
        """
        graph = asking(saver)
        for thread in ("t", "u", "v"):
            await graph.ainvoke({"foo": "x"}, at(thread))
        before = await seen(graph, at("v"))

        removed = await saver.aprune(["t", "u"], strategy="delete")

        assert removed == 12
        assert await saver.alist_threads() == ["v"]
        assert await seen(graph, at("v")) == before

    @pytest.mark.promise("S120", "S121", "C2")
    async def test_keep_last(self, saver):
        """
        The newest stay, of whatever branch; the older ones go; none means one.
        """
        graph = chain("abc", checkpointer=saver)
        await graph.ainvoke({"foo": "x"}, at())
        trunk = await ids(graph, at())
        for _ in range(2):
            await graph.ainvoke(None, at(checkpoint_id=trunk[1]))
        head, before = await graph.aget_state(at()), await count(graph, at())

        assert await saver.aprune("t", keep_last=100) == 0
        newest = [point.config for point in await history(graph, at())][:5]
        assert await saver.aprune("t", keep_last=5) == before - 5
        assert [point.config for point in await history(graph, at())] == newest
        assert await graph.aget_state(at()) == head
        assert await saver.aprune("t", 0) == 4
        left = await graph.aget_state(at())
        assert (left.config, left.values, left.parent_config) == (head.config, head.values, None)
        assert await saver.aprune("t", keep_last=1) == 0

    @pytest.mark.promise("S120")
    async def test_keep_last_of_a_thread_without_branches(self, saver):
        """
        A conversation of many turns keeps its newest checkpoints and goes on; older ones stay
        where a DeltaChannel's value is made of them.
        """
        plain, folded = chain("ab", checkpointer=saver), delta_log(saver)
        for turn in range(3):
            await plain.ainvoke({"foo": str(turn)}, at())
            await folded.ainvoke({"log": [str(turn)]}, at("folded"))
        log = (await folded.aget_state(at("folded"))).values["log"]

        assert await saver.aprune("t", keep_last=2) == 10
        assert await saver.aprune("folded", keep_last=1) >= 0
        assert await count(plain, at()) == 2
        assert (await folded.aget_state(at("folded"))).values["log"] == log
        assert len((await plain.ainvoke({"foo": "x"}, at()))["bar"]) == 8

    @pytest.mark.promise("S119")
    async def test_invalid_arguments_are_refused(self, saver):
        """
        An unknown strategy, with the names of the others, and a negative number.
        """
        with pytest.raises(ValueError, match="keep_latest, delete"):
            await saver.aprune(["t"], strategy="oldest")
        with pytest.raises(InvalidConfigError):
            await saver.aprune("t", keep_last=-1)
        for method in (saver.prune, saver.aprune):
            assert all(n in method.__doc__ for n in ("keep_latest", "delete", "keep_last"))
