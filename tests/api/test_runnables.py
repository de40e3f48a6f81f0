"""A compiled graph is a Runnable of LangChain: the same programs under LangGraph and here."""

import subprocess
import sys
import warnings
from dataclasses import dataclass
from typing import Any, TypedDict

import anyio
import pytest
import typing_extensions
from langchain_core._api import LangChainBetaWarning
from langchain_core.runnables import Runnable, RunnableLambda, RunnableSequence
from msgspec import Struct
from pydantic import BaseModel

from actorgraph import END, START, StateGraph
from actorgraph.runtime.task.calling import thread_limiter
from tests.support.both_libraries import OURS, THEIRS, one_node
from tests.support.graphs import in_a_row

only_asyncio = pytest.mark.parametrize("anyio_backend", ["asyncio"])


class Counted(typing_extensions.TypedDict):
    """A number."""

    a: int


def more(state: Counted) -> Counted:
    """Add one."""
    return {"a": state["a"] + 1}


def graph_of(lib: Any, node: Any = more, **options: Any) -> Any:
    return one_node(lib, Counted, node, **options)


class Unsteady:
    """A node that fails at first."""

    def __init__(self, failures: int) -> None:
        self.left = failures

    def __call__(self, state: Counted) -> Counted:
        if self.left:
            self.left -= 1
            msg = "not yet"
            raise ValueError(msg)
        return more(state)


def with_retry(lib: Any) -> Any:
    graph = graph_of(lib, Unsteady(2)).with_retry(
        stop_after_attempt=3, wait_exponential_jitter=False
    )
    return graph.invoke({"a": 0})


def with_fallbacks(lib: Any) -> Any:
    return graph_of(lib, Unsteady(9)).with_fallbacks([graph_of(lib)]).invoke({"a": 0})


def with_listeners(lib: Any) -> Any:
    heard: list[Any] = []
    graph = graph_of(lib).with_listeners(
        on_start=lambda run: heard.append((run.name, run.inputs)),
        on_end=lambda run: heard.append((run.name, run.outputs)),
    )
    return graph.invoke({"a": 0}), heard


def as_tool(lib: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LangChainBetaWarning)
        tool = graph_of(lib, name="Counter").as_tool(description="counts")
    return tool.name, tool.description, tool.args, tool.invoke({"a": 4})


def batched(lib: Any) -> Any:
    graph = graph_of(lib)
    as_they_come = sorted(graph.batch_as_completed([{"a": 1}, {"a": 2}]), key=lambda pair: pair[0])
    return graph.batch([{"a": 1}, {"a": 2}]), as_they_come


def chained(lib: Any) -> Any:
    chain = RunnableLambda(lambda n: {"a": n}) | graph_of(lib) | RunnableLambda(str)
    piped = graph_of(lib).pipe(RunnableLambda(lambda state: state["a"]), lambda n: n * 2)
    return chain.invoke(1), chain.batch([1, 2]), list(chain.stream(1)), piped.invoke({"a": 1})


def streamed_chain(lib: Any) -> Any:
    chain = RunnableLambda(lambda n: {"a": n}) | graph_of(lib)
    return list(chain.stream(1)), type(chain.steps[0]).__name__


def described(lib: Any) -> Any:
    graph = graph_of(lib, name="Counter")
    return (
        [graph.get_name(), graph.get_name("Input"), graph.get_name(name="other")],
        graph.InputType.__name__,
        graph.OutputType,
        graph.input_schema.model_json_schema(),
        graph.output_schema.model_json_schema(),
        graph.get_input_schema().__name__,
        graph.get_output_schema().__name__,
        graph.config_specs,
        graph.bind(stream_mode="updates").get_name(),
    )


CAPABILITIES = {
    "isinstance": lambda lib: (
        isinstance(graph_of(lib), Runnable),
        issubclass(type(graph_of(lib)), Runnable),
    ),
    "with_retry": with_retry,
    "with_fallbacks": with_fallbacks,
    "with_listeners": with_listeners,
    "with_types": lambda lib: graph_of(lib).with_types(input_type=dict).InputType,
    "with_config": lambda lib: graph_of(lib).with_config(tags=["t"]).invoke({"a": 0}),
    "bind": lambda lib: graph_of(lib).bind(stream_mode="updates").invoke({"a": 0}),
    "map": lambda lib: graph_of(lib).map().invoke([{"a": 0}, {"a": 5}]),
    "assign": lambda lib: graph_of(lib).assign(b=lambda state: state["a"] * 2).invoke({"a": 0}),
    "pick": lambda lib: graph_of(lib).pick("a").invoke({"a": 0}),
    "transform": lambda lib: list(graph_of(lib).transform(iter([{"a": 0}]))),
    "batch": batched,
    "as_tool": as_tool,
    "chain": chained,
    "chain_streams": streamed_chain,
    "returned_by_a_function": lambda lib: RunnableLambda(lambda _: graph_of(lib)).invoke({"a": 0}),
    "described": described,
}


class TestUnderBothLibraries:
    @pytest.mark.langgraph("F-A3")
    @pytest.mark.parametrize("capability", CAPABILITIES)
    def test_a_graph_does_what_runnables_do(self, capability):
        """
        Each method of a Runnable gives with a graph of ours what it gives with LangGraph's.
        """
        program = CAPABILITIES[capability]

        assert program(OURS) == program(THEIRS)

    @only_asyncio
    async def test_async_methods_too(self, anyio_backend):
        """
        So do the async methods, and steps of chains that are awaited.
        """

        async def program(lib: Any) -> Any:
            graph = graph_of(lib)
            chain = RunnableLambda(lambda n: {"a": n}) | graph
            retried = graph_of(lib, Unsteady(1)).with_retry(wait_exponential_jitter=False)
            as_they_come = [pair async for pair in graph.abatch_as_completed([{"a": 1}])]
            return (
                await chain.ainvoke(1),
                await retried.ainvoke({"a": 0}),
                await graph.map().ainvoke([{"a": 1}]),
                await graph.with_fallbacks([graph]).abatch([{"a": 1}]),
                [chunk async for chunk in chain.astream(1)],
                [chunk async for chunk in graph.bind().astream({"a": 1})],
                as_they_come,
            )

        assert await program(OURS) == await program(THEIRS)


async def test_bound_graphs_run_on_both_event_loops():
    """
    Wrappers of LangChain's that don't need asyncio run a graph on trio too, and in a node.
    """
    graph = graph_of(OURS)
    outer = in_a_row({"inner": graph.bind()}, schema=Counted)

    assert await graph.bind().ainvoke({"a": 0}) == {"a": 1}
    assert await graph.with_config(tags=["t"]).with_types().ainvoke({"a": 0}) == {"a": 1}
    assert await outer.ainvoke({"a": 0}) == {"a": 1}


async def test_a_graph_in_a_node_takes_no_thread():
    """
    A subgraph is awaited on both event loops, although it is a Runnable.
    """
    borrowed: list[float] = []

    async def node(state: Counted) -> Counted:
        borrowed.append(thread_limiter().borrowed_tokens)
        return more(state)

    await in_a_row({"inner": graph_of(OURS, node)}, schema=Counted).ainvoke({"a": 0})

    assert borrowed == [0]


class TestImports:
    @pytest.mark.parametrize("first", ["langchain_core.runnables", "actorgraph"])
    def test_the_order_of_imports_does_not_matter(self, first):
        """
        A graph that was compiled before LangChain was imported is a Runnable from then on.
        """
        program = (
            f"import sys, {first}\n"
            "from actorgraph import StateGraph, CompiledStateGraph\n"
            "b = StateGraph(int).add_node('n', lambda s: s + 1).add_edge('__start__', 'n')\n"
            "graph = b.compile()\n"
            "loaded = 'langchain_core' in sys.modules\n"
            "from langchain_core.runnables import Runnable, RunnableLambda\n"
            "assert isinstance(graph, Runnable) and issubclass(CompiledStateGraph, Runnable)\n"
            "assert RunnableLambda(lambda _: graph).invoke(1) == 2\n"
            "assert graph.with_retry().invoke(1) == 2\n"
            "print(loaded)\n"
        )
        ran = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)

        assert ran.stdout.decode().strip() == str(first != "actorgraph")

    def test_a_method_of_runnables_imports_langchain(self):
        """
        `graph.with_retry()` needs no import of LangChain by the program; a look at other
        attributes, or a copy of the graph, imports nothing.
        """
        program = (
            "import sys, copy\n"
            "from actorgraph import StateGraph\n"
            "b = StateGraph(int).add_node('n', lambda s: s + 1).add_edge('__start__', 'n')\n"
            "graph = copy.copy(b.compile(name='g'))\n"
            "graph.name, graph.get_name(), graph.input_schema, hasattr(graph, 'absent')\n"
            "isinstance(graph, int)\n"
            "print('langchain_core' in sys.modules, graph.with_retry().invoke(1))\n"
        )
        ran = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)

        assert ran.stdout.decode().split() == ["False", "2"]

    def test_without_langchain_the_error_says_so(self):
        """
        Where LangChain is not installed, the use of its methods and operators names the package.
        """
        program = (
            "import sys\n"
            "sys.modules['langchain_core'] = None\n"
            "from actorgraph import StateGraph\n"
            "b = StateGraph(int).add_node('n', lambda s: s + 1).add_edge('__start__', 'n')\n"
            "graph = b.compile()\n"
            "for use in (lambda: graph.with_retry(), lambda: graph | abs, graph.as_runnable):\n"
            "    try: use()\n"
            "    except (AttributeError, ImportError) as e: print(type(e).__name__, e)\n"
            "assert not hasattr(graph, 'map') and graph.invoke(1) == 2\n"
        )
        ran = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
        told = ran.stdout.decode()

        assert "AttributeError 'CompiledStateGraph' object has no attribute 'with_retry'" in told
        assert told.count("langchain-core, which is not installed") == 3
        assert told.count("MissingExtraError") == 2

    def test_unknown_attributes_are_errors(self):
        """
        An attribute that neither a graph nor a Runnable has is an AttributeError.
        """
        with pytest.raises(AttributeError, match="'CompiledStateGraph' object has no attribute"):
            graph_of(OURS).with_retries()


class Plain(TypedDict):
    """Pydantic refuses this kind of class before Python 3.12."""

    a: int


class Extended(typing_extensions.TypedDict):
    """Pydantic describes this kind of class on each Python."""

    a: int


@dataclass
class Fields:
    a: int


class Model(BaseModel):
    a: int


class Compact(Struct):
    """Pydantic makes a model of this kind of class that can't describe itself."""

    a: int


def keys_of(model):
    """The properties of the keys that a model describes, wherever its schema has them."""
    described = model.model_json_schema()
    if "$ref" in described:
        described = described["$defs"][described["$ref"].rpartition("/")[2]]
    return described["properties"]


class TestSchemas:
    @pytest.mark.parametrize("state", [Plain, Extended, Fields, Model, Compact])
    def test_a_class_is_described_by_its_keys(self, state):
        """
        `input_schema` is a pydantic model for every kind of state, as `output_schema` is.
        """
        builder = StateGraph(state).add_node("n", more).add_edge(START, "n").add_edge("n", END)
        graph = builder.compile()

        for model in (graph.input_schema, graph.output_schema):
            assert keys_of(model)["a"]["type"] == "integer"


def test_a_chain_of_a_graph_is_made_of_the_graph_itself():
    """
    `graph | step` holds the graph, so that its chunks, its name and its callbacks are the chain's.
    """
    graph = graph_of(OURS)
    chain = graph | RunnableLambda(lambda state: state)

    assert isinstance(chain, RunnableSequence)
    assert chain.first is graph
    assert anyio.run(chain.ainvoke, {"a": 0}) == {"a": 1}
