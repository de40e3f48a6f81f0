"""LangChain's Runnables as nodes, and graphs as steps of its chains."""

import subprocess
import sys
from types import MappingProxyType

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import Runnable, RunnableLambda, RunnablePassthrough

from actorgraph import Command, GraphBuildError, InMemorySaver, StateGraph, interrupt
from tests.support.graphs import AB, at, in_a_row

only_asyncio = pytest.mark.parametrize("anyio_backend", ["asyncio"])
"""Async chains of LangChain run on asyncio only."""


class Heard(BaseCallbackHandler):
    """The chains that started: name, tags, and the node that they started in."""

    def __init__(self) -> None:
        self.starts: list[tuple] = []

    def on_chain_start(self, serialized, inputs, **more):
        metadata = more.get("metadata") or {}
        self.starts.append((more["name"], more.get("tags"), metadata.get("langgraph_node")))


def upper(state):
    return {"foo": state["foo"].upper()}


async def aupper(state):
    return upper(state)


def marked(state):
    return {"foo": state["foo"] + "!"}


PROMPT = ChatPromptTemplate.from_messages([("human", "{foo}")])


class TestDicts:
    @pytest.mark.parametrize("kind", [dict, MappingProxyType])
    async def test_a_dict_of_functions_is_a_node(self, kind):
        """
        It is LangChain's RunnableParallel: each function gets the state, and makes one key.
        """
        node = kind({"foo": lambda state: state["foo"] * 2, "bar": lambda state: ["x"]})

        result = await in_a_row({"node": node}).ainvoke({"foo": "x"})

        assert result == {"foo": "xx", "bar": ["x"]}

    def test_without_langchain_it_is_refused(self, monkeypatch):
        """
        In a program that has not imported LangChain, the error says how the dict could be a node.
        """
        monkeypatch.delitem(sys.modules, "langchain_core.runnables")
        with pytest.raises(GraphBuildError, match=r"node 'node': .* got the dict") as refused:
            StateGraph(AB).add_node("node", {"foo": lambda state: "x"})

        assert "import langchain_core.runnables" in refused.value.do


class TestNodes:
    @pytest.mark.langgraph("F-A3")
    @pytest.mark.parametrize(
        ("runnable", "foo"),
        [
            (RunnableLambda(upper), "X"),
            (RunnableLambda(upper) | RunnableLambda(marked), "X!"),
            (PROMPT | (lambda made: {"foo": made.messages[0].content * 2}), "xx"),
        ],
        ids=["lambda", "chain", "prompt"],
    )
    async def test_a_runnable_is_a_node(self, runnable, foo):
        """
        Functions, prompts and chains of LangChain run in nodes, on trio by their sync side.
        """
        assert (await in_a_row({"node": runnable}).ainvoke({"foo": "x"}))["foo"] == foo

    @only_asyncio
    async def test_an_async_runnable_is_a_node(self, anyio_backend):
        """
        A Runnable that has only an async side is awaited.
        """
        graph = in_a_row({"node": RunnableLambda(aupper)})

        assert (await graph.ainvoke({"foo": "x"}))["foo"] == "X"

    @pytest.mark.langgraph("F-A3")
    def test_its_name_is_the_nodes(self):
        """
        `add_node(runnable)` takes the Runnable's name.
        """
        named = RunnableLambda(upper, name="shout")

        assert list(StateGraph(AB).add_node(named).nodes) == ["shout"]

    @pytest.mark.langgraph("F-C21")
    async def test_callbacks_and_tags_of_the_call_reach_it(self):
        """
        A Runnable that is a node is handed the task's config.
        """
        heard = Heard()
        config = {"callbacks": [heard], "tags": ["t"]}
        await in_a_row({"node": RunnableLambda(upper)}).ainvoke({"foo": "x"}, config)

        assert heard.starts == [
            ("LangGraph", ["t"], None),
            ("node", ["graph:step:1", "t"], "node"),
            ("upper", ["seq:step:1", "t"], "node"),
        ]

    @pytest.mark.langgraph("F-C21", "F-C22")
    @pytest.mark.parametrize("sync", [True, False])
    async def test_runnables_called_without_a_config_inherit_it(self, sync, anyio_backend_name):
        """
        A node may call Runnables without passing its config on; its callbacks hear them all the
        same.
        """
        heard = Heard()
        inner = RunnableLambda(upper)

        def node(state):
            return inner.invoke(state)

        async def anode(state):
            return inner.invoke(state)

        graph = in_a_row({"node": node if sync else anode})
        await graph.ainvoke({"foo": "x"}, {"callbacks": [heard], "tags": ["t"], "run_name": "r"})

        assert heard.starts[1:] == [
            ("node", ["graph:step:1", "t"], "node"),
            ("upper", ["seq:step:1", "t"], "node"),
        ]

    async def test_calls_of_different_nodes_are_distinguished(self):
        """
        The context of one task doesn't leak into the next, nor out of the run.
        """
        heard, inner = Heard(), RunnableLambda(upper)

        async def calls(state):
            return inner.invoke(state)

        graph = in_a_row({"a": calls, "b": calls})
        await graph.ainvoke({"foo": "x"}, {"callbacks": [heard]})
        inner.invoke({"foo": "y"})

        assert [node for name, _, node in heard.starts if name == "upper"] == ["a", "b"]


class TestChains:
    @only_asyncio
    @pytest.mark.parametrize(
        "join",
        [
            lambda first, graph, last: first | graph | last,
            lambda first, graph, last: first | graph.as_runnable() | last,
            lambda first, graph, last: first | (graph | last),
        ],
    )
    async def test_a_graph_is_a_step_of_a_chain(self, join, anyio_backend):
        """
        Before, between and behind other steps, as it is or made into a Runnable.
        """
        graph = in_a_row({"node": upper})
        chain = join(
            RunnableLambda(lambda text: {"foo": text}), graph, RunnableLambda(lambda s: s["foo"])
        )

        assert await chain.ainvoke("x") == "X"

    @only_asyncio
    async def test_dicts_and_functions_lead_into_it(self, anyio_backend):
        """
        LangChain makes steps of them, on either side of the operator.
        """
        graph = in_a_row({"node": upper})
        from_dict = {"foo": RunnablePassthrough()} | graph
        from_function = (lambda text: {"foo": text}) | graph

        assert (await from_dict.ainvoke("x"))["foo"] == "X"
        assert (await from_function.ainvoke("x"))["foo"] == "X"

    @pytest.mark.langgraph("F-C22")
    def test_blocking_chains_work_too(self):
        """
        `invoke`, `batch` and `stream` of a chain run the graph as `graph.invoke` does.
        """
        chain = RunnableLambda(lambda text: {"foo": text}) | in_a_row({"node": upper})

        assert chain.invoke("x")["foo"] == "X"
        assert [made["foo"] for made in chain.batch(["x", "y"])] == ["X", "Y"]
        assert list(chain.stream("x")) == [{"node": {"foo": "X"}}]

    @only_asyncio
    async def test_the_chains_config_reaches_the_graph(self, anyio_backend):
        """
        Thread, callbacks and tags of the chain's call are those of the run.
        """
        heard = Heard()
        graph = in_a_row({"node": RunnableLambda(upper)}, checkpointer=InMemorySaver())
        chain = RunnableLambda(lambda text: {"foo": text}) | graph.as_runnable()
        await chain.ainvoke("x", {**at("t"), "callbacks": [heard], "tags": ["t"]})

        assert heard.starts[-1] == ("upper", ["seq:step:1", "t"], "node")
        assert (await graph.aget_state(at("t"))).values["foo"] == "X"

    @only_asyncio
    async def test_in_a_node_its_questions_reach_the_caller(self, anyio_backend):
        """
        A chain with a graph in a node pauses the run, and the answer finds the graph.
        """

        async def asks(state):
            return {"foo": interrupt("?")}

        chain = RunnableLambda(lambda s: s) | in_a_row({"asks": asks}).as_runnable()

        async def node(state):
            return {"foo": (await chain.ainvoke(state))["foo"]}

        graph = in_a_row({"node": node}, checkpointer=InMemorySaver())
        paused = await graph.ainvoke({"foo": "x"}, at())
        done = await graph.ainvoke(Command(resume="answer"), at())

        assert [i.value for i in paused["__interrupt__"]] == ["?"]
        assert done["foo"] == "answer"

    def test_it_has_the_methods_of_a_runnable(self):
        """
        `as_runnable()` gives one under the graph's name.
        """
        runnable = in_a_row({"node": upper}, name="shout").as_runnable()

        assert isinstance(runnable, Runnable)
        assert runnable.get_name() == "shout"


def test_langchain_is_not_imported_for_those_who_do_not_use_it():
    """
    A program without LangChain runs a graph, streams it and describes it without importing it.
    """
    program = (
        "import sys\n"
        "from actorgraph import StateGraph\n"
        "g = StateGraph(int).add_node('n', lambda s: s + 1).add_edge('__start__', 'n').compile()\n"
        "assert g.invoke(1, {'tags': ['t']}) == 2\n"
        "assert list(g.stream(1, stream_mode='messages')) == []\n"
        "g.get_input_jsonschema()\n"
        "print([m for m in sys.modules if m.startswith('langchain')])\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)

    assert ran.stdout.decode().strip() == "[]"
