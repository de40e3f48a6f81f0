"""Keys of an input that the graph does not have: warned of, refused, or the graph above's."""

import operator
from typing import Annotated, TypedDict

import pytest
from pydantic import BaseModel, ConfigDict

from actorgraph import (
    END,
    START,
    CachePolicy,
    Command,
    InMemoryCache,
    InvalidUpdateError,
    Send,
    StateGraph,
    UnknownChannelWarning,
    interrupt,
)
from tests.support.graphs import AB, at


class Topic(TypedDict):
    """A state of which one key has no value to begin with."""

    topic: str
    log: Annotated[list, operator.add]


async def research(state):
    return {"log": [state["topic"]]}


async def look_elsewhere(state):
    return {"log": [{}["topic"]]}


def topics(node):
    """One node over Topic."""
    return StateGraph(Topic).add_node("research", node).add_edge(START, "research").compile()


class Wider(TypedDict):
    """The state of a graph above one over AB: a key more."""

    bar: Annotated[list, operator.add]
    more: str


async def answer(state):
    return {"bar": ["b"]}


def graph(*, conditional=False, **options):
    """One node over AB, entered by an edge or by a path."""
    builder = StateGraph(AB).add_node("answer", answer)
    if conditional:
        builder.add_conditional_edges(START, lambda state: "answer", ["answer"])
    else:
        builder.add_edge(START, "answer")
    return builder.compile(**options)


@pytest.mark.parametrize("conditional", [False, True], ids=["edge", "path"])
class TestKeysOfAnInput:
    @pytest.mark.promise("C29")
    async def test_an_unknown_key_is_warned_of(self, conditional):
        """
        A key without a channel is left out, and a warning names it and the nearest one.
        """
        with pytest.warns(UnknownChannelWarning, match="input has 'baar'.*did you mean 'bar'"):
            result = await graph(conditional=conditional).ainvoke({"baar": 1, "bar": ["a"]})

        assert result == {"bar": ["a", "b"]}

    @pytest.mark.promise("C29")
    async def test_a_strict_graph_refuses_it(self, conditional, saver):
        """
        Under strict it is an error, and no state is made of the rest.
        """
        strict = graph(conditional=conditional, checkpointer=saver, strict=True)
        with pytest.raises(InvalidUpdateError, match="input has 'baar'") as refused:
            await strict.ainvoke({"baar": 1, "bar": ["a"]}, at())

        assert "known keys" in refused.value.do
        assert not (await strict.aget_state(at())).values.get("bar")

    @pytest.mark.parametrize("strict", [False, True])
    async def test_a_graph_inside_takes_its_part_of_the_state_above(self, conditional, strict):
        """
        Keys that only the parent graph has cause no warning about the subgraph's input, even in
        strict mode.
        """
        inside = graph(conditional=conditional, strict=strict)
        above = StateGraph(Wider).add_node("inside", inside).add_edge(START, "inside").compile()

        assert await above.ainvoke({"more": "m", "bar": []}) == {"more": "m", "bar": ["b"]}


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    bar: Annotated[list[str], operator.add] = []


def asking(saver, schema=AB, **options):
    """One node that adds the answer of a question."""
    builder = StateGraph(schema).add_node("ask", lambda _: {"bar": [interrupt("?")]})
    return builder.add_edge(START, "ask").compile(checkpointer=saver, **options)


class TestKeysOfACommand:
    """A Command as the input: on a new thread, as an answer, and at an older step."""

    async def test_an_unknown_key_is_warned_of(self, saver):
        """
        Its other keys, its goto and its answer count.
        """
        graph = asking(saver)
        with pytest.warns(UnknownChannelWarning, match="input has 'baar'.*did you mean 'bar'"):
            await graph.ainvoke(Command(update={"baar": 1, "bar": ["a"]}, goto="ask"), at())
        with pytest.warns(UnknownChannelWarning, match="input has 'baar'"):
            found = await graph.ainvoke(Command(update={"baar": 1}, resume="b"), at())
        assert found["bar"] == ["a", "b"]

        steps = [each async for each in graph.aget_state_history(at()) if each.next]
        with pytest.warns(UnknownChannelWarning, match="input has 'baar'"):
            await graph.ainvoke(Command(update={"baar": 1}), steps[0].config)

    @pytest.mark.parametrize(("schema", "strict"), [(AB, True), (Closed, False)])
    async def test_a_strict_graph_and_a_class_that_forbids_it_refuse_it(
        self, saver, schema, strict
    ):
        """
        Nothing is written of the rest, and the question waits on.
        """
        graph = asking(saver, schema, strict=strict)
        with pytest.raises(InvalidUpdateError, match="input has 'baar'"):
            await graph.ainvoke(Command(update={"baar": 1, "bar": ["a"]}, goto="ask"), at())
        assert (await graph.aget_state(at())).next == ()

        await graph.ainvoke({"bar": ["a"]}, at())
        with pytest.raises(InvalidUpdateError, match="input has 'baar'"):
            await graph.ainvoke(Command(update={"baar": 1}, resume="b"), at())
        assert (await graph.aget_state(at())).next == ("ask",)
        assert (await graph.ainvoke(Command(resume="b"), at()))["bar"] == ["a", "b"]


class TestKeysThatHaveNoValue:
    async def test_an_input_of_unknown_keys_only_is_explained_twice(self):
        """
        The warning names the key that was meant; the node's KeyError says that it has no value.
        """
        with (
            pytest.warns(UnknownChannelWarning, match="input has 'topik'.*did you mean 'topic'"),
            pytest.raises(KeyError, match="topic") as raised,
        ):
            await topics(research).ainvoke({"topik": "actors"})

        assert raised.value.__notes__[0].startswith("The state has no 'topic' yet")
        assert "pass it in the input" in raised.value.__notes__[0]

    @pytest.mark.parametrize(
        ("node", "given"),
        [
            (look_elsewhere, {"topic": "actors"}),
            (lambda state: {"log": [state["other"]]}, {"topic": "actors"}),
        ],
        ids=["a dict of the node's own", "no key of the state"],
    )
    async def test_other_keys_are_not_explained(self, node, given):
        """
        A KeyError about anything else is raised as it is.
        """
        with pytest.raises(KeyError) as raised:
            await topics(node).ainvoke(given)

        assert len(raised.value.__notes__) == 1

    async def test_keys_missing_in_a_send_are_not_blamed_on_the_state(self):
        """
        A task of a Send sees what was sent, so the state's values are not to blame.
        """
        builder = StateGraph(Topic).add_node("research", research)
        builder.add_conditional_edges(START, lambda state: [Send("research", {})], ["research"])
        with pytest.raises(KeyError) as raised:
            await builder.compile().ainvoke({"log": []})

        assert len(raised.value.__notes__) == 1


class Verdict(TypedDict):
    """A state without the key that the nodes below return."""

    bar: Annotated[list, operator.add]


class TestKeysForAConditionalEdge:
    @staticmethod
    def judged(node, path, **options):
        """A node, and a path that reads what it has returned."""
        builder = StateGraph(Verdict).add_node("node", node, **options).add_node("again", answer)
        builder.add_edge(START, "node").add_conditional_edges("node", path)
        return builder

    @pytest.mark.parametrize("kind", ["plain", "async"])
    async def test_a_path_sees_them(self, kind):
        """
        Keys of a node's dict without a channel reach the node's own conditional edges, and
        nothing else.
        """
        seen: list = []

        def node(state):
            return {"bar": ["n"], "verdict": "again"}

        def plain(state):
            seen.append(dict(state))
            return state["verdict"]

        async def awaited(state):
            return plain(state)

        graph = self.judged(node, plain if kind == "plain" else awaited).compile()
        with pytest.warns(UnknownChannelWarning, match="'verdict'"):
            result = await graph.ainvoke({"bar": []})

        assert seen == [{"bar": ["n"], "verdict": "again"}]
        assert result == {"bar": ["n", "b"]}

    async def test_a_path_with_a_schema_of_its_own_does_not(self):
        """
        A path whose parameter is annotated gets that schema's keys, whatever the node returned.
        """
        seen: list = []

        async def node(state):
            return {"bar": ["n"], "verdict": "again"}

        async def path(state: Verdict):
            seen.append(dict(state))
            return "again"

        with pytest.warns(UnknownChannelWarning):
            await self.judged(node, path).compile().ainvoke({"bar": []})

        assert seen == [{"bar": ["n"]}]

    async def test_the_first_path_sees_those_of_the_input(self):
        """
        A conditional entry point gets the input's keys, too.
        """
        builder = StateGraph(Verdict).add_node("again", answer)
        builder.add_conditional_edges(START, lambda state: state["verdict"])
        with pytest.warns(UnknownChannelWarning, match="input has 'verdict'"):
            result = await builder.compile().ainvoke({"bar": [], "verdict": "again"})

        assert result == {"bar": ["b"]}

    async def test_such_a_result_is_not_cached(self):
        """
        A cached result would lack the keys, so the node runs again.
        """
        ran: list = []

        async def node(state):
            ran.append(1)
            return {"bar": ["n"], "verdict": END}

        path, policy = (lambda state: state["verdict"]), CachePolicy()
        graph = self.judged(node, path, cache_policy=policy).compile(cache=InMemoryCache())
        for _ in range(2):
            with pytest.warns(UnknownChannelWarning):
                assert await graph.ainvoke({"bar": []}) == {"bar": ["n"]}

        assert len(ran) == 2
