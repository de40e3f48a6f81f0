"""RemoteGraph over HTTP: a graph of another process, called and used as a node."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from actorgraph import Command
from actorgraph.compat.parts.remote_runs import RunRequest
from tests.support.layer import both_ways, over_layer
from tests.web.server import running
from tests.web.waiting_app import waiting_application

START = """
import asyncio, operator, uuid
from typing import Annotated, TypedDict
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphInterrupt
from langgraph.graph import START, StateGraph
from langgraph.pregel.remote import RemoteException, RemoteGraph
from langgraph.types import Command

URL = {url!r}
NEW = {{"foo": "a", "log": ["input"]}}

def thread():
    return {{"configurable": {{"thread_id": str(uuid.uuid4())}}}}

async def listed(chunks):
    return [chunk async for chunk in chunks]

def awaited(name, call):  # a client of one event loop is of no use in another
    return asyncio.run(call(RemoteGraph(name, url=URL)))

class State(TypedDict, total=False):
    foo: str
    log: list[str]

def with_node(remote):
    graph = StateGraph(State).add_node("remote", remote).add_edge(START, "remote")
    graph.add_node("after", lambda state: {{"foo": "after"}}).add_edge("remote", "after")
    return graph.compile(checkpointer=InMemorySaver())
"""

RUNS = """
log = RemoteGraph("log", url=URL)
print(log.name, RemoteGraph("log", url=URL, name="other").name)
print(log.invoke(NEW), awaited("log", lambda remote: remote.ainvoke(NEW)))
print(log.invoke(NEW, version="v2"))
print(list(log.stream(NEW)))
print(awaited("log", lambda remote: listed(remote.astream(NEW, stream_mode="custom"))))
for part in log.stream(NEW, stream_mode=["values", "custom"]):
    print(part.event, part.data)
print(list(log.stream(NEW, subgraphs=True))[0])
print(list(log.stream(NEW, version="v2", stream_mode=["values", "updates"])))
talk = RemoteGraph("talk", url=URL)
for message, metadata in talk.stream({"messages": []}, stream_mode="messages"):
    print(message["content"], metadata["langgraph_node"])
for call in (lambda: RemoteGraph("fail", url=URL).invoke(NEW),
             lambda: awaited("fail", lambda remote: remote.ainvoke(NEW))):
    try:
        call()
    except RemoteException as error:
        print(error)
"""

STATES = """
ask = RemoteGraph("ask", url=URL)
config = thread()
first = ask.invoke(NEW, config)
print(first["log"], [question["value"] for question in first["__interrupt__"]])
state = ask.get_state(config)
print(state.values, state.next, [i.value for i in state.interrupts], state.tasks[0].name)
print(state.config["configurable"]["thread_id"] == config["configurable"]["thread_id"])
print(awaited("ask", lambda remote: remote.aget_state(config)).metadata["step"])
print(ask.invoke(Command(resume="because"), config))
history = list(ask.get_state_history(config))
print([one.next for one in history], len(list(ask.get_state_history(config, limit=2))))
before = history[1].config
older = awaited("ask", lambda remote: listed(remote.aget_state_history(config, before=before)))
print([one.next for one in older], ask.get_state(before).values)
update = lambda remote: remote.aupdate_state(config, {"log": ["async"]}, as_node="first")
for made in (ask.update_state(config, {"log": ["sync"]}, "first"), awaited("ask", update)):
    print(sorted(made["configurable"]), ask.get_state(made).values["log"][-1])
bound = ask.with_config(config)
print(type(bound).__name__, bound.get_state({}).next)
for graph in (ask.get_graph(), awaited("ask", lambda remote: remote.aget_graph())):
    print(sorted(graph.nodes), [(edge.source, edge.target) for edge in graph.edges])
"""

NODES = """
log = RemoteGraph("log", url=URL)
outer = with_node(log)
config = thread()
print(outer.invoke(NEW, config), log.get_state(config).values)
for chunk in outer.stream(NEW, thread(), subgraphs=True, stream_mode=["updates", "custom"]):
    print([part.partition(":")[0] for part in chunk[0]], *chunk[1:])
print(asyncio.run(listed(with_node(log).astream(NEW, thread(), stream_mode="updates"))))

def inside(state, config):
    try:
        return RemoteGraph("ask", url=URL).invoke(NEW, config)
    except GraphInterrupt as error:
        print(type(error).__name__, error.args[0][0].value)
        raise

print([asked.value for asked in with_node(inside).invoke(NEW, thread())["__interrupt__"]])
"""

QUESTIONS = """
ask = RemoteGraph("ask", url=URL)
outer = with_node(ask)
config = thread()
paused = outer.invoke(NEW, config)
print(outer.get_state(config).next, [i.value for i in paused["__interrupt__"]])
print(outer.get_state(config).interrupts == ask.get_state(config).interrupts)
print(outer.invoke(Command(resume="because"), config))
print(outer.get_state(config).next, ask.get_state(config).next)

async def answered(config):
    paused = await outer.ainvoke(NEW, config)
    asked = paused["__interrupt__"][0].id
    return await outer.ainvoke(Command(resume={asked: "by id"}), config)

print(asyncio.run(answered(thread()))["log"])
"""


TOOLS = """
import urllib.request
from langgraph_sdk import get_sync_client

def let(words):
    for _ in range(words):
        urllib.request.urlopen(urllib.request.Request(URL + "/open", method="POST"))

words, config, client = RemoteGraph("words", url=URL), thread(), get_sync_client(url=URL)
let(2)
question = {"messages": [{"type": "human", "content": "weather?", "id": "q"}]}
for message, _ in words.stream(question, config, stream_mode="messages"):
    print(message["type"], message["content"], message.get("tool_call_chunks"))
    if message["content"] == "It ":
        break
let(2)
place = config["configurable"]["thread_id"]
[run] = client.runs.list(place)
client.runs.join(place, run["run_id"])
[run] = client.runs.list(place)
print(run["status"], [one["content"] for one in words.get_state(config).values["messages"]])
"""


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The beginning of every program; it knows the address of a server."""
    path: Path = tmp_path_factory.mktemp("remote") / "runs.db"
    with running(waiting_application(path)) as url:
        yield START.format(url=url)


class TestRemoteGraph:
    @pytest.mark.langgraph
    @pytest.mark.parametrize(
        "program", [RUNS, STATES, NODES, TOOLS], ids=["runs", "states", "nodes", "tools"]
    )
    def test_it_is_langgraph_s(self, start, program):
        """
        Runs, chunks, errors, states, calls of tools, a stream that is left, and its use in a node
        are those of LangGraph's RemoteGraph.
        """
        here, there = both_ways(start + program)

        assert here == there
        assert len(here) > 4

    def test_a_question_of_the_server_pauses_the_graph_and_its_answer_resumes_it(self, start):
        """
        The caller of the outer graph gets the question and answers it, with or without its id.
        """
        assert over_layer(start + QUESTIONS) == [
            "('remote',) ['why?']",
            "True",
            "{'foo': 'after', 'log': ['input', 'first', 'answer: because']}",
            "() ()",
            "['input', 'first', 'answer: by id']",
        ]

    @pytest.mark.parametrize(
        ("given", "sent"),
        [
            (Command(resume=[]), {"resume": []}),
            (Command(update=[], goto="n"), {"update": [], "goto": ["n"]}),
            (Command(resume=0, goto=[]), {"resume": 0}),
            (Command(), {}),
        ],
    )
    def test_parts_of_a_command_that_are_sent(self, given, sent):
        """
        An empty list is sent as an answer and as an update; no target at all is left out.
        """
        assert RunRequest(given, {}, None, subgraphs=False).command == sent

    def test_a_missing_client_or_thread_is_refused(self):
        """
        A RemoteGraph without a client, and a state without a thread, are refused with advice.
        """
        program = """
        from langgraph.pregel.remote import RemoteGraph
        lone, remote = RemoteGraph("log"), RemoteGraph("log", url="http://127.0.0.1:9")
        for call in (
            lambda: lone.invoke({}),
            lambda: remote.get_state({}),
            lambda: remote.stream_events({}),
        ):
            try:
                call()
            except Exception as error:
                print(type(error).__name__, str(error).splitlines()[0].partition(',')[0])
        """
        assert over_layer(program) == [
            "InvalidConfigError the RemoteGraph has no sync_client",
            "InvalidConfigError the state of a RemoteGraph belongs to a thread",
            "NotImplementedError a RemoteGraph has no event streams; read its chunks: astream()",
        ]
