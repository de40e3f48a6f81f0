"""Transformers that packages derive from LangGraph's protected base, over the layer."""

import pytest

from tests.support.layer import both_ways, over_layer

START = """
import asyncio
from typing import Any, TypedDict
from langgraph.graph import START, StateGraph
from langgraph.stream.run_stream import AsyncSubgraphRunStream, SubgraphRunStream
from langgraph.stream import StreamChannel
from langgraph.stream.transformers import _TasksLifecycleBase

class State(TypedDict, total=False):
    said: str

def graph(node, *transformers):
    built = StateGraph(State).add_node("node", node).add_edge(START, "node")
    return built.compile(transformers=transformers)

class Agents(_TasksLifecycleBase):
    _native = True
    supports_sync = True

    def __init__(self, scope=()):
        super().__init__(scope)
        self.channel, self.handles, self.mux = StreamChannel(), {}, None

    def init(self):
        return {"agents": self.channel}

    def _on_register(self, mux):
        self.mux = mux

    def _should_track(self, ns):
        return len(ns) == len(self.scope) + 1

    def _on_started(self, ns, graph_name, trigger_call_id):
        mux = self.mux._make_child(ns)
        kind = AsyncSubgraphRunStream if mux.is_async else SubgraphRunStream
        handle = kind(mux, path=ns, graph_name=graph_name, trigger_call_id=trigger_call_id)
        handle.cause, handle.agent = self._pending_cause, self._lc_by_ns[ns]
        self.handles[ns] = handle
        self.channel.push(handle)

    def _on_terminal(self, ns, status, error):
        handle = self.handles[ns]
        handle.status, handle.error = status, error
        if handle._mux._events._closed:
            return
        handle._mux.fail(RuntimeError(error)) if status == "failed" else handle._mux.close()

    def process(self, event):
        keep = super().process(event)
        handle = self.handles.get(tuple(event["params"]["namespace"])[: len(self.scope) + 1])
        if handle is not None and not handle._mux._events._closed:
            handle._observe_event(event)
            handle._mux.push(event)
        return keep

def shown(handle):
    error = "broken" in str(handle.error)
    return (handle.graph_name, handle.agent, handle.cause, handle.status, error,
            len(handle.path), bool(handle.trigger_call_id), type(handle).__name__)
"""

AGENTS = """
def fail(state):
    raise ValueError("broken")

def named(node, name):
    return graph(node).with_config(metadata={"lc_agent_name": name})

class Calls(TypedDict, total=False):
    said: str
    tool_call: dict

def run(inner, given):
    outer = StateGraph(Calls).add_node("node", inner).add_edge(START, "node")
    outer = outer.compile(transformers=[Agents])
    stream = outer.stream_events(given, version="v3")
    found = []
    try:
        found.extend(stream.agents)
    finally:
        for handle in found:
            print(*shown(handle))

says = lambda state: {"said": "inner"}
run(graph(says), {"said": "a"})
run(named(says, "helper"), {"said": "a", "tool_call": {"id": "call"}})
try:
    run(named(fail, "helper"), {"said": "a"})
except ValueError as error:
    print(error)

async def main():
    stream = await graph(graph(says), Agents).astream_events({"said": "a"}, version="v3")
    async for handle in stream.agents:
        events = [event["method"] async for event in handle]
        print(*shown(handle), "values" in events, await handle.output())

asyncio.run(main())
stream = graph(graph(says), Agents).stream_events({"said": "a"}, version="v3")
for handle in stream.agents:
    print("values" in [event["method"] for event in handle], handle.output, handle._seen_terminal)
"""

PIECES = """
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk
from langgraph.graph import MessagesState
from langgraph.stream import StreamTransformer

class Redacts(StreamTransformer):
    before_builtins = True
    required_stream_modes = ("messages",)

    def init(self):
        return {}

    def process(self, event):
        if event["method"] == "messages":
            message, metadata = event["params"]["data"]
            text = message.content.replace("bob at example", "[REDACTED]")
            event["params"]["data"] = message.model_copy(update={"content": text}), metadata
        return True

class InternalCallTransformer(Redacts):
    def process(self, event):
        return True

def speaking(*transformers, model=None):
    model = model or GenericFakeChatModel(messages=iter([AIMessage("mail bob at example now")]))
    node = lambda state: {"messages": [model.invoke(state["messages"])]}
    built = StateGraph(MessagesState).add_node("node", node).add_edge(START, "node")
    return built.compile(transformers=transformers)

for made in ([Redacts], [InternalCallTransformer], []):
    stream = speaking(*made).stream_events({"messages": ["hi"]}, version="v3")
    print([list(message.text) for message in stream.messages])

class Named(GenericFakeChatModel):
    def _stream(self, messages, **more):
        for text, identifier in (("with", "own"), (" an id", None)):
            yield ChatGenerationChunk(message=AIMessageChunk(text, id=identifier))

stream = speaking(model=Named(messages=iter(()))).stream_events({"messages": ["hi"]}, version="v3")
print([(message.message_id, list(message.text)) for message in stream.messages])

async def main():
    stream = await speaking(Redacts).astream_events({"messages": ["hi"]}, version="v3")
    print([type(event["params"]["data"][0]).__name__ async for event in stream
           if event["method"] == "messages"])

asyncio.run(main())
"""

MUX = """
class Slow(_TasksLifecycleBase):
    required_stream_modes = ("values",)

    def init(self):
        return {}

    def _should_track(self, ns):
        return False

    async def aprocess(self, event):
        await asyncio.sleep(0)
        return True

says = lambda state: {"said": "inner"}
built = graph(graph(says), Agents, Slow)
print([factory.__name__ for factory in built.stream_transformers])
async def main():
    stream = await built.astream_events({"said": "a"}, version="v3")
    print([type(one).__name__ for one in stream._mux._transformers][-2:])
    await stream.output()
try:
    asyncio.run(main())
except Exception as error:
    print(type(error).__name__, str(error).partition(" to one")[0])
"""


class TestLifecycleBase:
    @pytest.mark.langgraph
    def test_nested_runs_are_followed_as_langgraph_follows_them(self):
        """
        A transformer that forwards the events of nested runs sees the same runs, ends and names.
        """
        here, there = both_ways(START + AGENTS)

        assert here == there
        assert len(here) == 6

    def test_a_transformer_that_changes_messages_gets_whole_ones(self):
        """
        It finds text that is split over pieces; the other runs still get each piece, of one id.
        """
        pieces = "[['mail', ' ', 'bob', ' ', 'at', ' ', 'example', ' ', 'now']]"

        assert over_layer(START + PIECES) == [
            "[['mail [REDACTED] now']]",
            pieces,
            pieces,
            "[('own', ['with', ' an id'])]",
            "['AIMessage']",
        ]

    def test_a_sync_method_can_t_pass_events_to_one_that_waits(self):
        """
        The transformers of a graph are listed in order; one that can't work says what to do.
        """
        assert over_layer(START + MUX) == [
            "['Agents', 'Slow']",
            "['Agents', 'Slow']",
            "InvalidConfigError a sync method of a transformer passes events",
        ]
