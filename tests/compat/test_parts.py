"""Small parts of the layer, each beside LangGraph's own: configs, runnables, UI messages."""

import inspect
from importlib import import_module

import pytest

from actorgraph.compat.modules import MODULES
from tests.support.layer import both_ways, over_layer

RUNNABLES = """
import asyncio
from typing import TypedDict
from langchain_core.runnables import RunnableLambda
from langgraph._internal._runnable import RunnableCallable
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime

class State(TypedDict, total=False):
    said: str

def sync(state, runtime: Runtime, *, extra=1):
    return {"said": f"sync {runtime.context} {extra}"}

async def awaits(state, runtime: Runtime, *, extra=1):
    return {"said": f"async {runtime.context} {extra}"}

def graph(node):
    return StateGraph(State, context_schema=str).add_node("n", node).add_edge(START, "n").compile()

for made in (
    RunnableCallable(sync, awaits),
    RunnableCallable(sync, awaits, trace=False, extra=2),
    RunnableCallable(sync),
    RunnableCallable(lambda s: RunnableLambda(lambda t: {"said": "returned"})),
    RunnableCallable(lambda s: {"said": "named"}, name="other"),
):
    print(made.name, graph(made).invoke({}, context="c"))
    print(asyncio.run(graph(made).ainvoke({}, context="c")))
print(RunnableCallable(lambda a, b=0: a + b, explode_args=True).invoke(((1,), {"b": 2})))
for wrong in (lambda: RunnableCallable(None), lambda: RunnableCallable(None, awaits).invoke({})):
    try:
        wrong()
    except (ValueError, TypeError) as error:
        print(type(error).__name__, str(error)[:38])
"""

EDGES = """
import asyncio
import threading
from langgraph._internal._runnable import RunnableCallable

def tools_to_model(state):
    return threading.current_thread() is threading.main_thread()

def of(module, name):
    made = lambda state: tools_to_model(state)
    made.__module__, made.__qualname__ = module, name
    return RunnableCallable(made, trace=False)

factory, edge = "langchain.agents.factory", "_make_tools_to_model_edge.<locals>.tools_to_model"
for made in (of(factory, edge), of("program", edge), of(factory, "other")):
    print(asyncio.run(made.ainvoke({})))
"""

CONFIGS = """
from typing import Annotated, TypedDict
import operator
from langgraph._internal._constants import CONFIG_KEY_READ, CONFIG_KEY_RUNTIME, CONFIG_KEY_SEND
from langgraph.config import get_config
from langgraph.graph import START, StateGraph
from langgraph.utils.config import ensure_config, patch_configurable

class State(TypedDict, total=False):
    log: Annotated[list, operator.add]
    other: int

def node(state):
    own = get_config()["configurable"]
    print(own[CONFIG_KEY_READ]("log"), own[CONFIG_KEY_READ](["log", "other"]))
    own[CONFIG_KEY_SEND]([("log", ["sent"]), ("other", 2)])
    print(own[CONFIG_KEY_READ]("log"), own[CONFIG_KEY_READ]("log", fresh=True))
    print(own[CONFIG_KEY_RUNTIME].context, own["k"], sorted(ensure_config())[:2])
    return {"log": ["returned"]}

graph = StateGraph(State, context_schema=str).add_node("n", node).add_edge(START, "n").compile()
result = graph.invoke({"log": ["first"]}, {"configurable": {"k": 1}}, context="c")
print(sorted(result["log"]), result["other"])
print(patch_configurable(None, {"a": 1}), patch_configurable({"configurable": {"b": 2}}, {"a": 1}))
merged = ensure_config({"tags": ["a"]}, {"configurable": {"x": 1}, "metadata": {"m": 1}})
print(merged["tags"], merged["configurable"], dict(merged["metadata"])["m"])
"""

UI = """
from typing import Annotated, TypedDict
from langgraph.graph import START, StateGraph
from langgraph.graph.ui import delete_ui_message, push_ui_message, ui_message_reducer

class State(TypedDict, total=False):
    ui: Annotated[list, ui_message_reducer]

def node(state):
    push_ui_message("card", {"a": 1}, id="1")
    push_ui_message("card", {"b": 2}, id="1", merge=True, metadata={"m": 1})
    push_ui_message("other", {}, id="2", message={"id": "x"})
    delete_ui_message("2")

graph = StateGraph(State).add_node("n", node).add_edge(START, "n").compile()
for chunk in graph.stream({"ui": []}, stream_mode=["custom", "values"]):
    print(chunk)
try:
    ui_message_reducer([], {"type": "remove-ui", "id": "9"})
except ValueError as error:
    print(str(error)[:40])
"""

GRAPHS = """
import warnings
warnings.simplefilter("ignore")
from langgraph.graph import END, START
from langgraph.graph.message import MessageGraph
from langgraph.warnings import LangGraphDeprecatedSinceV10
from langgraph.pregel import Pregel
from langgraph.version import __version__

builder = MessageGraph()
builder.add_node("say", lambda messages: ("ai", f"{len(messages)} heard"))
builder.add_edge(START, "say")
graph = builder.compile()
print([m.content for m in graph.invoke([("user", "hi")])], isinstance(graph, Pregel))
print(__version__[:4])
print(LangGraphDeprecatedSinceV10("x."))
"""


@pytest.mark.langgraph
@pytest.mark.parametrize(
    "program",
    [RUNNABLES, CONFIGS, UI, GRAPHS],
    ids=["runnables", "configs", "ui", "graphs"],
)
def test_a_program_prints_the_same_over_the_layer_and_natively(program):
    """
    Names that packages take from LangGraph's smaller modules behave as LangGraph's own.
    """
    ours, theirs = both_ways(program)

    assert ours == theirs


OTHER_NAMES = {"Pregel", "PregelProtocol", "PregelNode", "StateNodeSpec"}
"""Classes of graphs and nodes, which programs only check against."""


def test_classes_have_the_names_that_programs_import():
    """
    A class that replaces one of another name calls itself as that, as texts of errors do.
    """
    replaced = [
        (public, getattr(import_module(home), name))
        for names in MODULES.values()
        for public, (home, name) in ((key, place.rsplit(".", 1)) for key, place in names.items())
        if public != name and not public.startswith("_") and public not in OTHER_NAMES
    ]
    classes = [(public, thing.__name__) for public, thing in replaced if inspect.isclass(thing)]

    assert ("ToolNode", "ToolNode") in classes
    assert [pair for pair in classes if pair[0] != pair[1]] == []


def test_edges_of_agents_are_called_on_the_event_loop():
    """
    The edges of LangChain's agents take no worker thread, and other sync functions do.
    """
    assert over_layer(EDGES) == ["True", "False", "False"]
