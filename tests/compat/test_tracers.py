"""Tracers of LangGraph's programs see and change the same over the layer."""

import pytest

from tests.support.layer import both_ways, over_layer

GRAPHS = """
import asyncio
from typing import TypedDict
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.pregel import Pregel
from langgraph.types import Command, interrupt

class State(TypedDict, total=False):
    said: str

def ask(state):
    return {"said": interrupt("who?")}

def fails(state):
    raise KeyError("x")

def compiled(node, **more):
    return StateGraph(State).add_node("n", node).add_edge(START, "n").compile(**more)

AT = {"configurable": {"thread_id": "t"}}

async def read(stream):
    return [chunk async for chunk in stream]
"""

WRAPPED = (
    GRAPHS
    + """
own = {name: getattr(Pregel, name) for name in ("invoke", "ainvoke", "stream", "astream")}
seen = []

def wrap(*names):
    for name in names:
        def wrapped(self, *args, __name=name, **more):
            seen.append((__name, self.name, sorted(more)))
            return own[__name](self, *args, **more)
        setattr(Pregel, name, wrapped)

def unwrap():
    for name, method in own.items():
        setattr(Pregel, name, method)

def told():
    made = [(name, graph) for name, graph, _ in seen]
    seen.clear()
    return made

def say(state):
    return {"said": "hi"}

early = compiled(say, name="early")
for names in (("stream", "astream"), ("invoke", "ainvoke"), ("stream",), tuple(own)):
    wrap(*names)
    graph = compiled(ask, checkpointer=InMemorySaver(), name="asks")
    print(names, [i.value for i in graph.invoke({}, AT)["__interrupt__"]], told())
    print(graph.invoke(Command(resume="me"), AT), told())
    print(list(graph.stream({}, AT)) is not None, told())
    print(early.invoke({}), told())
    print(early.invoke({}, stream_mode="updates"), told())
    print(asyncio.run(early.ainvoke({})), told())
    print(asyncio.run(read(early.astream({}))), told())
    try:
        compiled(fails, name="fails").invoke({})
    except KeyError as error:
        print(error, told())
    unwrap()
print(early.invoke({}), told())
print(isinstance(early, Pregel), issubclass(type(early), Pregel), isinstance(1, Pregel))
"""
)

NESTED = (
    GRAPHS
    + """
seen = []
own = Pregel.astream

def astream(self, input, config=None, **more):
    seen.append((self.name, (config or {}).get("configurable", {}).get("thread_id")))
    return own(self, input, config, **more)

Pregel.astream = astream

async def main():
    graph = compiled(compiled(ask, name="inner"), checkpointer=InMemorySaver(), name="outer")
    first = await graph.ainvoke({}, AT)
    print([i.value for i in first["__interrupt__"]], seen)
    print(await graph.ainvoke(Command(resume="me"), AT), seen[2:])

asyncio.run(main())
"""
)

OWN_SPANS = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)

from langgraph.graph import START, StateGraph

def node(state):
    with trace.get_tracer("mine").start_as_current_span("mine"):
        return {}

graph = StateGraph(dict).add_node("n", node).add_edge(START, "n").compile()
graph.invoke({})
print(sorted(span.name for span in exporter.get_finished_spans()))
"""


REPORTED = (
    GRAPHS
    + """
from langchain_core.callbacks import BaseCallbackHandler
from langgraph._internal._runnable import RunnableCallable
from langgraph.graph import END

class Heard(BaseCallbackHandler):
    def on_chain_start(self, serialized, inputs, **more):
        print(more.get("name"))

def node(state):
    return {"said": "hi"}

def loud(state):
    return END

def quiet(state):
    return END

for route in (loud, RunnableCallable(loud), RunnableCallable(quiet, trace=False)):
    builder = StateGraph(State).add_node("n", node).add_edge(START, "n")
    graph = builder.add_conditional_edges("n", route).compile()
    graph.invoke({}, {"callbacks": [Heard()]})
"""
)

SENT = (
    GRAPHS
    + """
from dataclasses import dataclass
from langgraph._internal._constants import CONF, CONFIG_KEY_READ_STATE
from langgraph.config import get_config
from langgraph.types import Send

@dataclass
class Whole:
    said: str = "nothing"

def read(given):
    state = get_config()[CONF].get(CONFIG_KEY_READ_STATE)
    print(given, state and state())

builder = StateGraph(Whole).add_node("sent", read).add_node("edge", read)
builder.add_conditional_edges(START, lambda state: [Send("sent", 1)], ["sent"])
builder.add_edge("sent", "edge").compile().invoke({"said": "hi"})
"""
)

PROGRAMS = {"wrapped": WRAPPED, "nested": NESTED, "reported": REPORTED, "sent": SENT}


@pytest.mark.langgraph
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_tracers_and_wrappers_see_what_langgraph_shows(program):
    """
    Wrappers on Pregel are called for every compiled graph, and `stream` for `invoke`; routers
    without a trace aren't reported; a Send's task can read the state of its node.
    """
    ours, theirs = both_ways(program)

    assert ours == theirs


def test_runs_over_the_layer_begin_no_spans_of_their_own():
    """
    A program with a tracer provider gets its own spans only, unless it asks for the others.
    """
    assert over_layer(OWN_SPANS) == ["['mine']"]
    asked = (
        "from actorgraph.compat import install, uninstall\nuninstall()\ninstall(own_spans=True)\n"
    )
    assert over_layer(asked + OWN_SPANS) == ["['mine', 'n', 'run LangGraph', 'superstep']"]
