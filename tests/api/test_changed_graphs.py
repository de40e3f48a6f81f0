"""A newer version of a graph takes over threads that wait: all of them, or an error first."""

import operator
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

import pytest

from actorgraph import START, Command, InMemorySaver, Send, StateGraph, entrypoint, interrupt, task
from actorgraph.api.system.thread_checks import check_threads
from actorgraph.channels import DeltaChannel
from actorgraph.errors import GraphBuildError, SchemaMismatchError
from actorgraph.runtime.task.scope import DEFINED_TASKS
from actorgraph.types import Migration
from actorgraph.values.graph_changes import ResumeVerdict
from tests.support.graphs import at


class Book(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    price: Any


class Cost(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    cost: Any


def booking(saver: Any, ran: list[str], schema: Any = Book, **names: Any) -> Any:
    """`fetch` ends at once, `ask` waits for a person, `book` follows both."""
    fetch, ask, book = (names.get(name, name) for name in ("fetch", "ask", "book"))

    def works(_: Any) -> Any:
        ran.append("fetch")
        return Command(update={"log": ["fetch"], **names.get("found", {"price": 7})})

    def asks(_: Any) -> Any:
        return {"log": [interrupt("sure?")]}

    def books(state: Any) -> Any:
        ran.append("book")
        return {"log": [f"book {state.get('price', state.get('cost'))!r}"]}

    builder = StateGraph(schema).add_node(fetch, works).add_node(ask, asks)
    builder.add_node(book, books).add_edge(START, fetch).add_edge(START, ask)
    for more in names.get("more", ()):
        builder.add_node(more, lambda _: {}).add_edge(START, more)
    starts = names.get("starts", fetch)
    builder.add_edge(starts, book)
    return builder.compile(checkpointer=saver, migrations=names.get("migrations", ()))


JOIN = ["fetch", "ask"]
GOES_ON: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "nothing changed": ({}, {}),
    "a node added": ({}, {"more": ["third"]}),
    "the next node renamed": (
        {},
        {"book": "reserve", "migrations": [Migration(nodes={"book": "reserve"})]},
    ),
    "the finished node renamed": (
        {},
        {"fetch": "load", "migrations": [Migration(nodes={"fetch": "load"})]},
    ),
    "the asking node renamed": (
        {},
        {"ask": "confirm", "migrations": [Migration(nodes={"ask": "confirm"})]},
    ),
    "renamed twice": (
        {},
        {"ask": "c", "migrations": [Migration(nodes={"ask": "b"}), Migration(nodes={"b": "c"})]},
    ),
    "a key renamed": (
        {},
        {"schema": Cost, "migrations": [Migration(channels={"price": "cost"})]},
    ),
    "a value converted": (
        {"found": {"price": "7"}},
        {"migrations": [Migration(values={"price": int})]},
    ),
    "a join in another order": ({"starts": JOIN}, {"starts": JOIN[::-1]}),
    "a join's starts and end renamed": (
        {"starts": JOIN},
        {
            "fetch": "load",
            "book": "reserve",
            "starts": ["ask", "load"],
            "migrations": [Migration(nodes={"fetch": "load", "book": "reserve"})],
        },
    ),
    "a join with one more start, which counts": (
        {"starts": JOIN},
        {
            "starts": [*JOIN, "third"],
            "more": ["third"],
            "migrations": [Migration(joins={"book": ["third"]})],
        },
    ),
    "a join with a start less": (
        {"starts": [*JOIN, "third"], "more": ["third"]},
        {"starts": JOIN, "more": ["third"]},
    ),
}

REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "the next node renamed": ({}, {"book": "reserve"}, "Migration(nodes={'book'"),
    "the finished node renamed": ({}, {"fetch": "load"}, "Migration(nodes={'fetch'"),
    "the asking node renamed": ({}, {"ask": "confirm"}, "Migration(nodes={'ask'"),
    "a key renamed": ({}, {"schema": Cost}, "Migration(channels={'price'"),
    "a join with one more start": (
        {"starts": JOIN},
        {"starts": [*JOIN, "third"], "more": ["third"]},
        "Migration(joins={'book': ['third']})",
    ),
    "a join that is an edge now": (
        {"starts": JOIN},
        {"starts": "fetch"},
        "Migration(joins={'book': None})",
    ),
}


class TestAnUnfinishedSuperstep:
    @pytest.mark.parametrize("kind", GOES_ON)
    async def test_it_goes_on_with_all_that_it_had(self, kind):
        """
        A finished task is kept and not run again, the question has its id, and the end is reached.
        """
        old, new = GOES_ON[kind]
        saver = InMemorySaver()
        await booking(saver, [], **old).ainvoke({"log": []}, at())
        (asked,) = (await booking(saver, [], **old).aget_state(at())).interrupts
        ran: list[str] = []
        graph = booking(saver, ran, **new)
        (shown,) = (await graph.aget_state(at())).interrupts

        result = await graph.ainvoke(Command(resume={asked.id: "yes"}), at())

        assert shown.id == asked.id
        assert sorted(result["log"]) == ["book 7", "fetch", "yes"]
        assert ran == ["book"]
        assert (await graph.aget_state(at())).next == ()

    @pytest.mark.parametrize("kind", REFUSED)
    async def test_it_is_refused_before_anything_runs(self, kind):
        """
        The error names the thread and has the Migration to write; nothing is lost by it.
        """
        old, new, cure = REFUSED[kind]
        saver, ran = InMemorySaver(), list[str]()
        await booking(saver, [], **old).ainvoke({"log": []}, at("t"))

        with pytest.raises(SchemaMismatchError, match="thread 't'") as refused:
            await booking(saver, ran, **new).ainvoke(Command(resume="yes"), at("t"))

        assert cure in refused.value.do
        assert ran == []
        done = await booking(saver, ran, **old).ainvoke(Command(resume="yes"), at("t"))
        assert "book 7" in done["log"]

    async def test_a_removed_node_leads_elsewhere(self):
        """
        Another node runs in place of a removed one that waits; a finished one keeps its result.
        """
        saver = InMemorySaver()
        await booking(saver, []).ainvoke({"log": []}, at())
        builder = StateGraph(Book)
        builder.add_node("other", lambda _: {"log": ["other"]}, destinations=("book",))
        builder.add_node("book", lambda state: {"log": [f"book {state['price']}"]})
        builder.add_edge(START, "other")
        goto = Migration(goto={"ask": "other", "fetch": ()})

        result = await builder.compile(saver, migrations=[goto]).ainvoke(None, at())

        assert sorted(result["log"]) == ["book 7", "fetch", "other"]

    @pytest.mark.every_saver
    async def test_sends_are_led_on(self, saver):
        """
        The tasks of Sends keep their results and questions under a renamed node, and an argument's
        keys are renamed and converted; one of a dropped node shifts no other.
        """

        def graph(
            worker: str, *migrations: Migration, gone: bool = True, key: str = "price"
        ) -> Any:
            def works(given: Any) -> Any:
                what = given[key]
                return {"log": [f"{interrupt('?')} {what!r}" if given["asks"] else f"{what!r}"]}

            def sends(_: Any) -> Any:
                first = [Send("gone", {})] if gone else []
                made = [{key: str(n), "asks": n > 1} for n in (1, 2, 3)]
                return [*first, *(Send(worker, one) for one in made)]

            builder = StateGraph(Cost if key == "cost" else Book).add_node(worker, works)
            if gone:
                builder.add_node("gone", lambda _: interrupt("gone?"))
            builder.add_conditional_edges(START, sends, [worker, *(["gone"] if gone else [])])
            return builder.compile(saver, migrations=migrations)

        await graph("old").ainvoke({"log": []}, at())
        asked = (await graph("old").aget_state(at())).interrupts
        moves = Migration(
            nodes={"old": "new", "gone": None}, channels={"price": "cost"}, values={"cost": int}
        )
        new = graph("new", moves, gone=False, key="cost")

        left = (await new.aget_state(at())).interrupts
        answers = {one.id: f"{place}" for place, one in enumerate(left)}
        result = await new.ainvoke(Command(resume=answers), at())

        assert [one.id for one in left] == [one.id for one in asked[1:]]
        assert result["log"] == ["'1'", "0 2", "1 3"]

    async def test_an_error_handler_goes_on_under_its_nodes_new_name(self):
        """
        A handler that waits for an answer gets it, and the failed node is not run again.
        """
        saver = InMemorySaver()
        ran: list[str] = []

        def fails(_: Any) -> Any:
            ran.append("fails")
            raise OSError("broken")

        def graph(name: str, *migrations: Migration) -> Any:
            builder = StateGraph(Book)
            builder.add_node(name, fails, error_handler=lambda _: {"log": [interrupt("skip?")]})
            return builder.add_edge(START, name).compile(saver, migrations=migrations)

        await graph("old").ainvoke({"log": []}, at())
        new = graph("new", Migration(nodes={"old": "new"}))

        assert (await new.ainvoke(Command(resume="yes"), at()))["log"] == ["yes"]
        assert ran == ["fails"]

    async def test_a_node_may_be_deferred_since(self):
        """
        A node that is due is run if it was deferred meanwhile, or is no longer.
        """
        saver = InMemorySaver()

        def graph(*, defer: bool) -> Any:
            builder = StateGraph(Book).add_node("a", lambda _: {"log": ["a"]})
            builder.add_node("b", lambda _: {"log": ["b"]}, defer=defer)
            builder.add_edge(START, "a").add_edge("a", "b")
            return builder.compile(saver, interrupt_before=["b"])

        for defer in (True, False):
            await graph(defer=not defer).ainvoke({"log": []}, at(str(defer)))
            done = await graph(defer=defer).ainvoke(None, at(str(defer)))
            assert done["log"] == ["a", "b"]


class TestSubgraphs:
    @staticmethod
    def graph(saver: Any, ran: list[str], node: str, inner: str, *moves: Migration) -> Any:
        """A subgraph that asks beside a node that ends; `moves` are the outer's, the inner's."""

        def note(name: str) -> Callable[[Any], Any]:
            def works(_: Any) -> Any:
                ran.append(name)
                return {"log": [name]}

            return works

        below = StateGraph(Book).add_node("first", note("first")).add_edge(START, "first")
        below.add_node(inner, lambda _: {"log": [interrupt("sure?")]}).add_edge("first", inner)
        team = below.compile(migrations=moves[1:])
        builder = StateGraph(Book).add_node(node, team).add_node("side", note("side"))
        builder.add_edge(START, node).add_edge(START, "side")
        return builder.compile(saver, migrations=moves[:1])

    async def test_their_state_is_found_below_a_renamed_node(self, saver):
        """
        A subgraph goes on where it waits although its node, and the one that asks, are renamed.
        """
        ran: list[str] = []
        old = self.graph(saver, ran, "team", "asks")
        await old.ainvoke({"log": []}, at())
        (asked,) = (await old.aget_state(at())).interrupts
        moves = Migration(nodes={"team": "crew"}), Migration(nodes={"asks": "confirms"})
        new = self.graph(saver, ran, "crew", "confirms", *moves)

        (task_shown,) = [t for t in (await new.aget_state(at(), subgraphs=True)).tasks if t.state]
        result = await new.ainvoke(Command(resume={asked.id: "yes"}), at())

        assert task_shown.state.next == ("confirms",)
        assert result["log"] == ["first", "yes", "side"]
        assert sorted(ran) == ["first", "side"]

    async def test_they_are_looked_at_before_anything_runs(self):
        """
        A subgraph whose waiting node is gone is refused by the outer run, with its namespace.
        """
        saver = InMemorySaver()
        ran: list[str] = []
        await self.graph(saver, ran, "team", "asks").ainvoke({"log": []}, at())

        with pytest.raises(SchemaMismatchError, match=r"in 'team:.*waits for node 'asks'"):
            await self.graph(saver, ran, "team", "confirms").ainvoke(Command(resume="y"), at())
        assert sorted(ran) == ["first", "side"]

    async def test_a_stateful_one_keeps_its_memory(self, saver):
        """
        The state of earlier tasks is found under the old name of the node.
        """

        class Outer(TypedDict, total=False):
            log: list[str]

        def graph(node: str, *migrations: Migration) -> Any:
            inner = StateGraph(Book).add_node("w", lambda _: {"log": ["w"]}).add_edge(START, "w")
            builder = StateGraph(Outer).add_node(node, inner.compile(checkpointer=True))
            return builder.add_edge(START, node).compile(saver, migrations=migrations)

        await graph("a").ainvoke({"log": ["1"]}, at())
        new = graph("b", Migration(nodes={"a": "b"}))

        assert (await new.ainvoke({"log": ["2"]}, at()))["log"] == ["1", "w", "2", "w"]
        assert (await new.ainvoke({"log": ["3"]}, at()))["log"][-2:] == ["3", "w"]


class TestFunctions:
    @staticmethod
    def graph(saver: Any, ran: list[str], names: tuple[str, str], *moves: Migration) -> Any:
        """An entrypoint that calls a task, which ends, and another that asks."""

        def loads(given: int) -> int:
            ran.append("loads")
            return given + 1

        def asks(_: int) -> Any:
            return interrupt("sure?")

        load, ask = task(loads, name=names[1]), task(asks, name=f"{names[1]}_asks")

        async def main(given: int) -> Any:
            return [await load(given), await ask(given)]

        main.__name__ = names[0]
        return entrypoint(checkpointer=saver, migrations=moves)(main)

    async def test_renamed_tasks_keep_their_results(self):
        """
        Neither a renamed entrypoint nor a renamed task is called again for what is stored.
        """
        saver = InMemorySaver()
        ran: list[str] = []
        old = self.graph(saver, ran, ("main", "load"))
        await old.ainvoke(1, at())
        (asked,) = (await old.aget_state(at())).interrupts
        tasks = {"load": "fetch", "load_asks": "fetch_asks"}
        moves = Migration(nodes={"main": "other"}, tasks=tasks)
        new = self.graph(saver, ran, ("other", "fetch"), moves)

        assert await new.ainvoke(Command(resume={asked.id: "yes"}), at()) == [2, "yes"]
        assert ran == ["loads"]

    async def test_a_renamed_task_is_not_run_again(self):
        """
        A stored call of a name that no task has any more is an error with the Migration to write.
        """
        saver = InMemorySaver()
        ran: list[str] = []
        await self.graph(saver, ran, ("main", "load_x")).ainvoke(1, at())
        DEFINED_TASKS.discard("load_x")

        with pytest.raises(SchemaMismatchError, match="under the name 'load_x'") as refused:
            await self.graph(saver, ran, ("main", "y")).ainvoke(Command(resume="y"), at())
        assert "Migration(tasks={'load_x': 'y'})" in refused.value.do
        assert ran == ["loads"]

    async def test_stored_results_of_a_removed_task_can_be_dropped(self):
        """
        None in place of a task's new name lets the check and the resume go on without its result.
        """
        saver = InMemorySaver()
        ran: list[str] = []
        await self.graph(saver, ran, ("main", "load_z")).ainvoke(1, at())
        DEFINED_TASKS.discard("load_z")
        moves = Migration(tasks={"load_z": None, "load_z_asks": "w_asks"})
        kept, gone = (self.graph(saver, ran, ("main", "w"), *m) for m in ((), (moves,)))

        (refused,) = (await check_threads({"main": kept}, saver)).groups
        (accepted,) = (await check_threads({"main": gone}, saver)).groups

        assert refused.verdict is ResumeVerdict.REFUSED
        assert accepted.verdict is not ResumeVerdict.REFUSED
        assert await gone.ainvoke(Command(resume="y"), at()) == [2, "y"]
        assert ran == ["loads", "loads"]


def cents(saver: Any, *migrations: Migration, write: Any = None) -> Any:
    """A graph over one key, whose node asks before it returns `write`."""

    class State(TypedDict, total=False):
        cents: int
        log: Annotated[
            list[int], DeltaChannel(lambda old, new: [*old, *(i for w in new for i in w)])
        ]

    def works(_: State) -> Any:
        return {} if write is None else {"cents": write, "log": [write]}

    def asks(_: State) -> None:
        interrupt("?")

    builder = StateGraph(State).add_node("a", works).add_edge(START, "a")
    builder.add_node("b", asks).add_edge(START, "b")
    return builder.compile(saver, migrations=migrations)


EUROS = Migration(values={"cents": lambda euros: euros * 100})


class TestConversions:
    @pytest.mark.every_saver
    async def test_each_stored_value_is_converted_once(self, saver):
        """
        It is so for any number of runs, forks, updates and graphs that read a thread.
        """
        await cents(saver).ainvoke({"cents": 5}, at())
        old = (await cents(saver).aget_state(at())).config

        for _ in range(3):
            assert (await cents(saver, EUROS).aget_state(at())).values["cents"] == 500
            await cents(saver, EUROS).ainvoke(Command(resume="y"), at())
            await cents(saver, EUROS).ainvoke({}, at())
        assert (await cents(saver, EUROS).aget_state(old)).values["cents"] == 500
        fork = await cents(saver, EUROS).aupdate_state(old, {"log": [1]}, as_node="a")
        assert (await cents(saver, EUROS).aget_state(fork)).values["cents"] == 500
        await cents(saver, EUROS).ainvoke(None, fork)
        values = [s.values.get("cents") async for s in cents(saver, EUROS).aget_state_history(at())]
        assert set(values) <= {500, None}

    @pytest.mark.every_saver
    async def test_a_new_value_is_not_converted(self, saver):
        """
        A value of the new version is as it was written: of an input, an update, a finished task
        beside an old checkpoint.
        """
        await cents(saver).ainvoke({"cents": 5}, at("input"))
        new = cents(saver, EUROS)
        await new.ainvoke({"cents": 7}, at("input"))
        assert (await new.aget_state(at("input"))).values["cents"] == 7
        await new.ainvoke({"cents": 8}, at("fresh"))
        assert (await cents(saver, EUROS).aget_state(at("fresh"))).values["cents"] == 8
        await cents(saver).aupdate_state(at("beside"), {"cents": 5}, as_node="__start__")
        await cents(saver, EUROS, write=9).ainvoke(None, at("beside"))
        assert (await cents(saver, EUROS).aget_state(at("beside"))).values["cents"] == 9
        await cents(saver, EUROS).ainvoke(Command(resume="y"), at("beside"))
        assert (await cents(saver, EUROS).aget_state(at("beside"))).values["cents"] == 9

    @pytest.mark.every_saver
    async def test_a_list_of_deltas_is_converted_once(self, saver):
        """
        Old writes of a DeltaChannel are converted, new ones are not, however often it is folded.
        """
        tens = Migration(values={"log": lambda log: [10 * n for n in log]})
        await cents(saver, write=1).ainvoke({"log": [0]}, at())
        for _ in range(3):
            await cents(saver, tens, write=2).ainvoke(Command(resume="y"), at())
            await cents(saver, tens, write=2).ainvoke({"cents": 1}, at())

        log = (await cents(saver, tens).aget_state(at())).values["log"]
        assert log == [0, 10, 2, 2, 2]

    async def test_migrations_come_and_go(self):
        """
        A second one is applied on top of the first; one that is taken out changes nothing.
        """
        saver = InMemorySaver()
        again = Migration(name="mills", values={"cents": lambda n: n * 10})
        await cents(saver).ainvoke({"cents": 5}, at())
        for moves, value in (
            ([EUROS], 500),
            ([EUROS, again], 5000),
            ([again], 5000),
            ([Migration(values={"cents": None})], 5000),
        ):
            older = moves == [Migration(values={"cents": None})]
            graph = cents(saver, *([again, *moves] if older else moves))
            await graph.ainvoke(Command(resume="y"), at())
            await graph.ainvoke({}, at())
            assert (await graph.aget_state(at())).values["cents"] == value

    async def test_an_older_version_is_refused(self):
        """
        A graph that lacks the newest conversion of a key doesn't take the value for an old one.
        """
        saver = InMemorySaver()
        newer = Migration(name="mills", values={"cents": lambda n: n * 10})
        await cents(saver, EUROS, newer).ainvoke({"cents": 5}, at())

        with pytest.raises(
            SchemaMismatchError, match="converted by a later migration \\('mills'\\)"
        ):
            await cents(saver, EUROS).ainvoke(Command(resume="y"), at())

    async def test_another_function_in_the_place_of_one_is_refused(self):
        """
        Without a name it can't be known whether it is a further conversion: the error asks for one.
        """
        saver = InMemorySaver()
        await cents(saver, EUROS).ainvoke({"cents": 5}, at())
        other = Migration(values={"cents": lambda cents: cents / 100})

        with pytest.raises(SchemaMismatchError, match="another function"):
            await cents(saver, other).ainvoke(Command(resume="y"), at())
        with pytest.raises(GraphBuildError, match="2 migrations without a name"):
            cents(saver, EUROS, other)

    async def test_a_function_that_fails_is_named(self):
        """
        A value that a function can't take is an error about its key, before anything runs.
        """
        saver = InMemorySaver()
        await cents(saver).ainvoke({"cents": 5}, at())

        with pytest.raises(SchemaMismatchError, match="can't convert a stored value of 'cents'"):
            await cents(saver, Migration(values={"cents": len})).ainvoke(None, at())
