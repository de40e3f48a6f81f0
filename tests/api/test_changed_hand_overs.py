"""Commands of a subgraph for the graph above, which has changed before it gets them."""

from operator import add
from typing import Annotated, Any, TypedDict

import pytest

from actorgraph import END, START, Command, InMemorySaver, Send, StateGraph, interrupt
from actorgraph.api.system.thread_checks import check_threads
from actorgraph.errors import SchemaMismatchError
from actorgraph.types import Migration
from actorgraph.values.graph_changes import ResumeVerdict
from tests.support.graphs import at


class Old(TypedDict, total=False):
    flags: Annotated[list[str], add]
    n: int


class New(TypedDict, total=False):
    marks: Annotated[list[str], add]
    n: int


RENAMED = Migration(nodes={"done": "fin"}, channels={"flags": "marks"})


def inner(
    given: Any, *, question: bool = False, more: bool = False, stateful: bool | None = None
) -> Any:
    """`up` hands over, while `ask` waits for a person; `again` asks once more."""

    def up(state: Any) -> Command[Any]:
        return Command(graph=Command.PARENT, **given)

    def ask(state: Any) -> dict[str, Any]:
        if question:
            interrupt("first")
        interrupt("second")
        return {}

    graph = StateGraph(Old).add_node("up", up).add_node("ask", ask)
    if more:
        graph.add_node("later", lambda _: {}).add_edge("ask", "later")
    return graph.add_edge(START, "up").add_edge(START, "ask").compile(stateful)


def outer(
    saver: Any, sub: Any, schema: Any = Old, *migrations: Migration, end: str = "done"
) -> Any:
    key = "flags" if schema is Old else "marks"

    def last(state: Any) -> dict[str, Any]:
        return {key: [f"{end} {state.get('n', 0)}"]}

    graph = StateGraph(schema).add_node("agent", sub, destinations=(end,)).add_node(end, last)
    return graph.add_edge(START, "agent").compile(saver, migrations=migrations)


UPDATES: dict[str, dict[str, Any]] = {
    "a dict": {"update": {"flags": ["up"]}, "goto": "done"},
    "pairs": {"update": [("flags", ["up"])], "goto": ["done"]},
    "a Send": {"update": {"flags": ["up"]}, "goto": Send("done", {"flags": []})},
}


class TestRenamed:
    @pytest.mark.parametrize("given", UPDATES.values(), ids=UPDATES)
    async def test_keys_and_nodes_of_a_stored_command_are_renamed(self, given):
        """
        A Command that waits in the subgraph reaches the renamed key and node of the graph above.
        """
        saver = InMemorySaver()
        await outer(saver, inner(given)).ainvoke({"flags": []}, at())

        graph = outer(saver, inner(given), New, RENAMED, end="fin")

        assert (await graph.ainvoke(Command(resume="y"), at()))["marks"] == ["up", "fin 0"]

    async def test_a_subgraph_that_has_changed_too(self):
        """
        A stored Command for the graph above fits a subgraph that got another node.
        """
        saver, given = InMemorySaver(), UPDATES["a dict"]
        await outer(saver, inner(given)).ainvoke({"flags": []}, at())

        graph = outer(saver, inner(given, more=True))

        assert (await graph.ainvoke(Command(resume="y"), at()))["flags"] == ["up", "done 0"]

    async def test_another_node_in_place_of_the_target(self):
        """
        A stored target that other nodes replace leads to these.
        """
        saver, given = InMemorySaver(), UPDATES["a dict"]
        await outer(saver, inner(given)).ainvoke({"flags": []}, at())

        graph = outer(saver, inner(given), Old, Migration(goto={"done": "fin"}), end="fin")

        assert (await graph.ainvoke(Command(resume="y"), at()))["flags"] == ["up", "fin 0"]


class TestValues:
    @pytest.mark.parametrize("fresh", [False, True], ids=["stored before", "made by the new one"])
    async def test_a_value_is_converted_once(self, fresh):
        """
        A value of an older version is converted; one that the new version stored is not.
        """
        saver, given = InMemorySaver(), {"update": {"n": 5}, "goto": "done"}
        convert = Migration(name="cents", values={"n": lambda n: n * 100})
        sub = inner(given, question=True)
        new = outer(saver, sub, Old, convert)
        await (new if fresh else outer(saver, sub)).ainvoke({"flags": []}, at())

        await new.ainvoke(Command(resume="y"), at())
        done = await new.ainvoke(Command(resume="y"), at())

        assert done["n"] == (5 if fresh else 500)


UNKNOWN: dict[str, tuple[dict[str, Any], str]] = {
    "a key": ({"update": {"flags": ["up"]}, "goto": END}, "'flags'"),
    "a node": ({"update": {"n": 1}, "goto": "done"}, "'done'"),
}


class TestUnknown:
    @pytest.mark.parametrize("stateful", [None, True])
    @pytest.mark.parametrize(("given", "name"), UNKNOWN.values(), ids=UNKNOWN)
    async def test_unknown_names_are_refused_before_anything_runs(self, given, name, stateful):
        """
        A name that the graph above has not got any more is an error that says how to migrate it;
        the check of threads says so too.
        """
        saver = InMemorySaver()
        graph = outer(saver, inner(given, stateful=stateful))
        await graph.ainvoke({"n": 0}, at())
        before = (await graph.aget_state(at())).config
        changed = outer(saver, inner(given, stateful=stateful), New, end="fin")

        (group,) = (await check_threads({"LangGraph": changed}, saver)).groups
        assert group.verdict is ResumeVerdict.REFUSED
        with pytest.raises(SchemaMismatchError, match=f"{name}(.|\n)*Migration"):
            await changed.ainvoke(Command(resume="y"), at())

        assert (await graph.aget_state(at())).config == before

    async def test_commands_that_a_stateful_subgraph_keeps_of_an_earlier_task(self):
        """
        They were taken: their names are not looked for any more.
        """
        saver, given = InMemorySaver(), UPDATES["a dict"]
        graph = outer(saver, inner(given, stateful=True))
        await graph.ainvoke({"n": 0}, at())
        await graph.ainvoke(Command(resume="y"), at())
        await graph.ainvoke({"n": 0}, {**at()}, interrupt_before=["agent"])
        changed = outer(saver, inner(given, stateful=True), Old, end="fin")

        (group,) = (await check_threads({"LangGraph": changed}, saver)).groups
        assert group.verdict is ResumeVerdict.FITS
