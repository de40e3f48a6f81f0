"""Values that a graph and its subgraph share, under migrations of one of the two alone."""

import dataclasses
import operator
from typing import Annotated, Any, TypedDict

import attrs
import msgspec
import pytest
from pydantic import BaseModel

from actorgraph import START, Command, InMemorySaver, StateGraph, interrupt
from actorgraph.api.system.thread_checks import check_threads
from actorgraph.errors import GraphBuildError, SchemaMismatchError, UnsafeSettingWarning
from actorgraph.types import Migration
from actorgraph.values.graph_changes import ResumeVerdict
from tests.support.graphs import at

pytestmark = pytest.mark.each_value

CENTS = Migration(values={"cents": lambda euros: euros * 100})
NAMED = Migration(name="cents", values={"cents": lambda euros: euros * 100})
SAME = Migration(values={"cents": lambda value: value})
NONE = Migration(values={"cents": None})


class Dicts(TypedDict, total=False):
    cents: int
    log: Annotated[list[Any], operator.add]


class Models(BaseModel):
    cents: int = 0
    log: Annotated[list[Any], operator.add] = []


@dataclasses.dataclass
class Data:
    cents: int = 0
    log: Annotated[list[Any], operator.add] = dataclasses.field(default_factory=list)


@attrs.define
class Attrs:
    cents: int = 0
    log: Annotated[list[Any], operator.add] = attrs.field(factory=list)


class Struct(msgspec.Struct):
    cents: int = 0
    log: Annotated[list[Any], operator.add] = msgspec.field(default_factory=list)


SCHEMAS = [Dicts, Models, *(pytest.param(k, marks=pytest.mark.long) for k in (Data, Attrs, Struct))]


class Own(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]


def inner(*migrations: Migration, schema: Any = Dicts, stateful: Any = None, **io: Any):
    """Asks, then adds one cent."""

    def ask(state: Any) -> dict[str, Any]:
        cents = state.get("cents", 0) if isinstance(state, dict) else state.cents
        return {"log": [interrupt("?")], "cents": cents + 1}

    graph = StateGraph(schema, **io).add_node("ask", ask).add_edge(START, "ask")
    return graph.compile(stateful, migrations=migrations, name="inner")


def outer(saver: Any, below: Any, *migrations: Migration, schema: Any = Dicts, called=False):
    """Runs a graph as its node, or in a function; `first` runs beside it."""
    ran = list[str]()

    async def calls(state: Any) -> Any:
        return await below.ainvoke({"cents": dict(state)["cents"]})

    async def beside(state: Any) -> dict[str, Any]:
        ran.append("beside")
        return {"log": [interrupt("beside")]}

    graph = StateGraph(schema).add_node("sub", calls if called else below)
    graph.add_node("beside", beside).add_edge(START, "sub").add_edge(START, "beside")
    made = graph.compile(saver, migrations=migrations, name="outer")
    return made, ran


async def verdict(saver: Any, graph: Any) -> ResumeVerdict:
    """The word of the check about the only thread."""
    (group,) = (await check_threads({"outer": graph}, saver)).groups
    return group.verdict


async def answered(graph: Any) -> Any:
    """Answer all questions of the thread; its values then."""
    asked = (await graph.aget_state(at())).interrupts
    return await graph.ainvoke(Command(resume={one.id: "y" for one in asked}), at())


async def refused(saver: Any, graph: Any, ran: list[str]) -> SchemaMismatchError:
    """The error of a resume, which the check foretells and which runs nothing."""
    assert await verdict(saver, graph) is ResumeVerdict.REFUSED
    with pytest.raises(SchemaMismatchError, match=r"'cents' from before a migration") as caught:
        await answered(graph)
    assert ran == []
    return caught.value


SIDES = [
    pytest.param((CENTS,), (), id="above"),
    pytest.param((NAMED,), (), id="named above"),
    pytest.param((NAMED, CENTS), (CENTS,), id="one more above"),
]


@pytest.mark.parametrize("schema", [Dicts, Models])
@pytest.mark.parametrize("stateful", [None, True])
class TestWaitingBelow:
    @pytest.mark.every_saver
    @pytest.mark.parametrize(("above", "below"), SIDES)
    async def test_one_side_alone(self, saver, schema, stateful, above, below):
        """
        A thread that waits in a subgraph is refused before anything runs if the graph above alone
        converts a key that they share; the error has the migration to give to the subgraph.
        """
        old = inner(schema=schema, stateful=stateful)
        await outer(saver, old, schema=schema)[0].ainvoke({"cents": 4}, at())
        new = inner(*below, schema=schema, stateful=stateful)

        error = await refused(saver, *outer(saver, new, *above, schema=schema))

        assert "Migration(" in error.do
        assert "of the subgraph too" in error.do
        assert (await answered(outer(saver, old, schema=schema)[0]))["cents"] == 5

    @pytest.mark.every_saver
    @pytest.mark.parametrize("names", [(CENTS, CENTS), (NAMED, NAMED), (NAMED, CENTS)])
    async def test_both_sides(self, saver, schema, stateful, names):
        """
        With the migration on both, under whichever names, the value is converted once.
        """
        old = inner(schema=schema, stateful=stateful)
        await outer(saver, old, schema=schema)[0].ainvoke({"cents": 4}, at())
        new = inner(names[1], schema=schema, stateful=stateful)
        graph, _ = outer(saver, new, names[0], schema=schema)

        assert await verdict(saver, graph) is ResumeVerdict.MIGRATED
        assert (await answered(graph))["cents"] == 401

    @pytest.mark.every_saver
    async def test_it_began_under_the_new_version(self, saver, schema, stateful):
        """
        A subgraph that began behind a breakpoint, with the converted value, is not refused.
        """
        old = inner(schema=schema, stateful=stateful)
        before, _ = outer(saver, old, schema=schema)
        await before.ainvoke({"cents": 4}, at(), interrupt_before=["sub"])
        graph, _ = outer(saver, old, CENTS, schema=schema)
        await graph.ainvoke(None, at())

        assert await verdict(saver, graph) is not ResumeVerdict.REFUSED
        assert (await answered(graph))["cents"] == 401


class TestOtherWays:
    @pytest.mark.every_saver
    async def test_a_graph_that_a_function_calls(self, saver):
        """
        It is refused when it is called, before a task of it runs.
        """
        await outer(saver, inner(), called=True)[0].ainvoke({"cents": 4}, at())

        with pytest.raises(SchemaMismatchError, match="from before a migration"):
            await answered(outer(saver, inner(), CENTS, called=True)[0])
        graph, _ = outer(saver, inner(CENTS), CENTS, called=True)
        assert (await answered(graph))["cents"] == 401

    @pytest.mark.every_saver
    async def test_the_memory_of_a_stateful_subgraph(self, saver):
        """
        Its memory is refused too while its node doesn't wait, and goes on with the migration.
        """
        old = inner(stateful=True)
        await outer(saver, old)[0].ainvoke({"cents": 4}, at())
        await answered(outer(saver, old)[0])
        graph, ran = outer(saver, old, CENTS)

        assert await verdict(saver, graph) is ResumeVerdict.REFUSED
        with pytest.raises(SchemaMismatchError, match="from before a migration"):
            await graph.ainvoke({"cents": 7}, at())
        assert ran == []
        whole, _ = outer(saver, inner(CENTS, stateful=True), CENTS)
        await whole.ainvoke({"cents": 700}, at())
        assert (await answered(whole))["cents"] == 701

    @pytest.mark.every_saver
    async def test_values_that_are_the_same(self, saver):
        """
        The error's other advice holds: a function that returns the value as it is lets it go on.
        """
        await outer(saver, inner())[0].ainvoke({"cents": 4}, at())

        assert (await answered(outer(saver, inner(SAME), CENTS)[0]))["cents"] == 5

    @pytest.mark.parametrize(("above", "below"), [((CENTS,), ()), ((), (CENTS,))])
    @pytest.mark.filterwarnings("error")
    async def test_a_key_that_only_has_the_same_name(self, above, below):
        """
        A key that the subgraph neither gets nor gives back is another one: nothing is refused.
        """
        saver = InMemorySaver()
        apart: dict[str, Any] = {"input_schema": Own, "output_schema": Own}
        await outer(saver, inner(**apart))[0].ainvoke({"cents": 4}, at())
        graph, _ = outer(saver, inner(*below, **apart), *above)

        assert await verdict(saver, graph) is not ResumeVerdict.REFUSED
        assert (await answered(graph))["cents"] == (400 if above else 4)

    async def test_the_note_stays(self):
        """
        Edits of a waiting subgraph, and runs of it, keep the note of the conversions above.
        """
        saver = InMemorySaver()
        await outer(saver, inner())[0].ainvoke({"cents": 4}, at(), interrupt_before=["sub"])
        graph, _ = outer(saver, inner(), CENTS)
        await graph.ainvoke(None, at())
        below = next(t for t in (await graph.aget_state(at())).tasks if t.name == "sub").state

        await graph.aupdate_state(below, {"cents": 600})

        assert (await graph.ainvoke(None, at()))["cents"] == 400
        assert (await answered(graph))["cents"] == 601

    async def test_three_levels(self):
        """
        The graph in the middle is one above and one below.
        """
        saver = InMemorySaver()

        def middle(below: Any, *migrations: Migration) -> Any:
            graph = StateGraph(Dicts).add_node("in", below).add_edge(START, "in")
            return graph.compile(migrations=migrations)

        await outer(saver, middle(inner()))[0].ainvoke({"cents": 4}, at())

        await refused(saver, *outer(saver, middle(inner(), CENTS), CENTS))
        with pytest.raises(GraphBuildError, match="alone converts 'cents'"):
            middle(inner(CENTS))
        with pytest.raises(GraphBuildError, match="alone converts 'cents'"):
            outer(saver, middle(inner(CENTS), CENTS))
        graph, _ = outer(saver, middle(inner(CENTS), CENTS), CENTS)
        assert (await answered(graph))["cents"] == 401


@pytest.mark.parametrize("schema", SCHEMAS)
class TestWaitingAbove:
    """Threads that wait before the subgraph, whose values only the graph above has yet."""

    @pytest.mark.every_saver
    @pytest.mark.parametrize("names", [(CENTS, CENTS), (NAMED, NAMED), (NAMED, CENTS)])
    async def test_both_sides(self, saver, schema, names):
        """
        The subgraph gets the converted value, whichever names the migrations have.
        """
        old, _ = outer(saver, inner(schema=schema), schema=schema)
        await old.ainvoke({"cents": 4}, at(), interrupt_before=["sub"])
        graph, _ = outer(saver, inner(names[1], schema=schema), names[0], schema=schema)

        assert await verdict(saver, graph) is ResumeVerdict.MIGRATED
        await graph.ainvoke(None, at())
        assert (await answered(graph))["cents"] == 401

    @pytest.mark.every_saver
    async def test_no_function_above(self, saver, schema):
        """
        With None above, new threads run, and one with an old value is refused and stays whole.
        """
        old, _ = outer(saver, inner(schema=schema), schema=schema)
        await old.ainvoke({"cents": 4}, at(), interrupt_before=["sub"])
        graph, ran = outer(saver, inner(CENTS, schema=schema), NONE, schema=schema)

        assert await verdict(saver, graph) is ResumeVerdict.REFUSED
        with pytest.raises(SchemaMismatchError, match="was not converted"):
            await graph.ainvoke(None, at())
        assert ran == []
        await old.ainvoke(None, at())
        assert (await answered(old))["cents"] == 5

    @pytest.mark.every_saver
    def test_a_new_thread_in_blocking_calls(self, store, schema):
        """
        A thread that began under a graph with None goes on with its value, in blocking calls too.
        """
        graph = StateGraph(schema).add_node("sub", inner(CENTS, schema=schema))
        graph.add_edge(START, "sub")
        with store.saver() as saver:
            made = graph.compile(saver, migrations=[NONE])

            made.invoke({"cents": 400}, at(), interrupt_before=["sub"])
            made.invoke(None, at())

            assert made.invoke(Command(resume="y"), at())["cents"] == 401

    @pytest.mark.parametrize("saved", [None, True, False, "own"])
    @pytest.mark.parametrize("above", [(), (CENTS,)])
    async def test_below_alone(self, schema, saved, above):
        """
        A graph isn't compiled if its subgraph has one more conversion of a key of both, wherever
        that stores its state; the error names the node, the key, and the migration to add.
        """
        stateful = InMemorySaver() if saved == "own" else saved
        below = inner(*above, NAMED, schema=schema, stateful=stateful)

        with pytest.raises(GraphBuildError, match=r"node 'sub' .* converts 'cents'") as caught:
            outer(None, below, *above, schema=schema)
        assert "Migration(name='cents', values={'cents': ...})" in caught.value.do
        outer(None, below, *above, NAMED, schema=schema)


async def test_a_function_that_calls_a_graph_is_warned_of():
    """
    A function may convert what it hands on, so that a graph which alone converts is a warning.
    """
    with pytest.warns(UnsafeSettingWarning, match="alone converts 'cents'"):
        outer(None, inner(CENTS), called=True)


@pytest.mark.parametrize("schema", SCHEMAS)
@pytest.mark.parametrize("stateful", [None, True])
class TestLaterBelow:
    @pytest.mark.every_saver
    @pytest.mark.parametrize("names", [(CENTS, CENTS), (NAMED, NAMED), (NAMED, CENTS)])
    async def test_values_that_began_converted(self, saver, schema, stateful, names):
        """
        A subgraph that gets the migration after the graph above leaves values alone which began
        under that one, in the memory of a stateful one too.
        """
        old = inner(schema=schema, stateful=stateful)
        await outer(saver, old, names[0], schema=schema)[0].ainvoke({"cents": 400}, at())
        below = inner(names[1], schema=schema, stateful=stateful)
        graph, _ = outer(saver, below, names[0], schema=schema)

        assert await verdict(saver, graph) is not ResumeVerdict.REFUSED
        assert (await answered(graph))["cents"] == 401
        await graph.ainvoke({}, at())
        assert (await answered(graph))["cents"] == 402


def after_first(saver: Any, below: Any, node: str, *migrations: Migration):
    """A node that only notes that it ran, then a subgraph."""
    ran = list[str]()

    def first(state: Any) -> dict[str, Any]:
        ran.append("first")
        return {}

    graph = StateGraph(Dicts).add_node("first", first).add_node(node, below)
    graph.add_edge(START, "first").add_edge("first", node)
    return graph.compile(saver, migrations=migrations, name="outer"), ran


def wrapped(node: str, below: Any, *migrations: Migration) -> Any:
    """A stateful graph that only runs a subgraph."""
    graph = StateGraph(Dicts).add_node(node, below).add_edge(START, node)
    return graph.compile(checkpointer=True, migrations=migrations, name="wrapped")


class TestRenamedMemories:
    """Memories of stateful subgraphs whose nodes were renamed since."""

    @pytest.mark.every_saver
    @pytest.mark.parametrize("waits", [False, True])
    async def test_of_a_renamed_node(self, saver, waits):
        """
        An old value that only the graph above converts is refused before another node runs, and
        by the check, when the subgraph's node was renamed; its memory stays as it was.
        """
        old, _ = after_first(saver, inner(stateful=True), "sub")
        await old.ainvoke({"cents": 4}, at())
        if not waits:
            await answered(old)
        renamed = Migration(nodes={"sub": "new"})
        graph, ran = after_first(saver, inner(stateful=True), "new", renamed, CENTS)

        assert await verdict(saver, graph) is ResumeVerdict.REFUSED
        with pytest.raises(SchemaMismatchError, match="'cents' from before a migration"):
            await (answered(graph) if waits else graph.ainvoke({"cents": 700}, at()))
        assert ran == []
        old, _ = after_first(saver, inner(stateful=True), "sub")
        assert (await (answered(old) if waits else old.ainvoke({"cents": 1}, at())))["cents"] >= 1

    @pytest.mark.every_saver
    async def test_both_sides(self, saver):
        """
        A memory that both graphs convert goes on under the new name of its node, converted once.
        """
        old, _ = after_first(saver, inner(stateful=True), "sub")
        await old.ainvoke({"cents": 4}, at())
        renamed = Migration(nodes={"sub": "new"})
        graph, _ = after_first(saver, inner(CENTS, stateful=True), "new", renamed, CENTS)

        assert await verdict(saver, graph) is ResumeVerdict.MIGRATED
        assert (await answered(graph))["cents"] == 401

    @pytest.mark.every_saver
    async def test_below_a_renamed_node(self, saver):
        """
        The same is refused two levels below, under a node renamed on each level.
        """
        old, _ = after_first(saver, wrapped("deep", inner(stateful=True)), "sub")
        await old.ainvoke({"cents": 4}, at())
        below = wrapped("deeper", inner(stateful=True), Migration(nodes={"deep": "deeper"}), CENTS)
        renamed = Migration(nodes={"sub": "new"})
        graph, ran = after_first(saver, below, "new", renamed, CENTS)

        assert await verdict(saver, graph) is ResumeVerdict.REFUSED
        with pytest.raises(SchemaMismatchError, match="'cents' from before a migration"):
            await answered(graph)
        assert ran == []
