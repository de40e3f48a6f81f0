"""Each class of LangGraph at each place that takes ours: the same as ours, or refused at once."""

import operator
import re
from types import SimpleNamespace
from typing import Annotated, Any, TypedDict

import langgraph.channels as their_channels
import langgraph.types as their_types
import pytest
from langgraph.graph.message import add_messages as their_add_messages
from langgraph.managed import IsLastStep as TheirLast
from langgraph.managed import RemainingSteps as TheirRemaining
from langgraph.prebuilt import InjectedState as TheirState
from langgraph.prebuilt import InjectedStore as TheirStore
from langgraph.prebuilt import ToolRuntime as TheirToolRuntime
from langgraph.store.memory import InMemoryStore as TheirMemoryStore

import actorgraph
import actorgraph.channels
from actorgraph import END, START, Command, InMemorySaver, StateGraph, get_store
from actorgraph.errors import SchemaError
from actorgraph.messages import AIMessage, ToolMessage
from actorgraph.prebuilt import InjectedState, InjectedStore, ToolNode, ToolRuntime
from actorgraph.stores import InMemoryStore
from tests.support.graphs import at

pytestmark = pytest.mark.first_case


class Log(TypedDict, total=False):
    """The state of all programs here."""

    count: int
    log: Annotated[list, operator.add]
    messages: list


VALUES = {
    "Command": lambda of: of.Command(update={"count": 3}, goto="then"),
    "Command for the parent": lambda of: of.Command(graph="__parent__", update={"count": 3}),
    "Command that answers": lambda of: of.Command(resume="yes"),
    "Send": lambda of: of.Send("then", {"count": 1}),
    "Send to nowhere": lambda of: of.Send("nowhere", {"count": 1}),
    "Overwrite": lambda of: of.Overwrite(["new"]),
    "Interrupt": lambda of: of.Interrupt(value="why?", id="0" * 32),
    "RetryPolicy": lambda of: of.RetryPolicy(max_attempts=2),
    "CachePolicy": lambda of: of.CachePolicy(ttl=3),
    "TimeoutPolicy": lambda of: of.TimeoutPolicy(run_timeout=3.0),
}
"""Object that a program hands to a graph -> its maker, from either library."""


def then(state: Any) -> Any:
    return {"log": ["then"]}


def graph_of(node: Any, **edges: Any) -> Any:
    """A graph of a node and one after it; `answer=` is what the node's conditional edge answers."""
    builder = StateGraph(Log).add_node("n", node).add_node("then", then).add_edge(START, "n")
    if "answer" in edges:
        builder.add_conditional_edges("n", lambda state: edges["answer"])
    return builder.compile(checkpointer=InMemorySaver())


async def returned(value: Any) -> Any:
    return await graph_of(lambda state: value).ainvoke({"log": ["old"]}, at())


async def returned_in_a_list(value: Any) -> Any:
    return await graph_of(lambda state: [{"log": ["x"]}, value]).ainvoke({"log": ["old"]}, at())


async def written(value: Any) -> Any:
    return await graph_of(lambda state: {"log": value}).ainvoke({"log": ["old"]}, at())


async def answered_by_an_edge(value: Any) -> Any:
    return await graph_of(lambda state: {}, answer=value).ainvoke({"log": []}, at())


async def answered_in_a_list(value: Any) -> Any:
    return await graph_of(lambda state: {}, answer=["then", value]).ainvoke({"log": []}, at())


async def as_input(value: Any) -> Any:
    graph = graph_of(lambda state: {"log": [actorgraph.interrupt("which?")]})
    await graph.ainvoke({"log": []}, at())
    return await graph.ainvoke(value, at())


async def as_input_of_a_key(value: Any) -> Any:
    return await graph_of(then).ainvoke({"log": value}, at())


async def as_an_update(value: Any) -> Any:
    graph = graph_of(then)
    await graph.ainvoke({"log": []}, at())
    await graph.aupdate_state(at(), value, as_node="n")
    snapshot = await graph.aget_state(at())
    return snapshot.values, snapshot.next


async def as_a_key_of_an_update(value: Any) -> Any:
    return await as_an_update({"log": value})


async def of_a_command(value: Any) -> Any:
    node = graph_of(lambda state: Command(update={"log": ["x"]}, goto=value))
    return await node.ainvoke({"log": []}, at())


async def of_a_tool(value: Any) -> Any:
    def act() -> Any:
        """Act."""
        return value

    asks = AIMessage("", tool_calls=[{"name": "act", "args": {}, "id": "c1"}])
    graph = graph_of(ToolNode([act]))
    return await graph.ainvoke({"messages": [asks]}, at())


async def of_a_tool_in_a_list(value: Any) -> Any:
    def act() -> Any:
        """Act."""
        return [ToolMessage("done", tool_call_id="c1", id="m1"), value]

    asks = AIMessage("", tool_calls=[{"name": "act", "args": {}, "id": "c1"}])
    return await graph_of(ToolNode([act])).ainvoke({"messages": [asks]}, at())


async def as_retry_policy(value: Any) -> Any:
    return await with_policy(retry_policy=value)


async def as_cache_policy(value: Any) -> Any:
    return await with_policy(cache_policy=value)


async def as_timeout(value: Any) -> Any:
    return await with_policy(timeout=value)


async def with_policy(**policy: Any) -> Any:
    async def node(state: Any) -> Any:
        return {"log": ["n"]}

    builder = StateGraph(Log).add_node("n", node, **policy).add_edge(START, "n")
    return await builder.compile().ainvoke({"log": []})


PLACES = [
    *(returned, returned_in_a_list, written, answered_by_an_edge, answered_in_a_list),
    *(as_input, as_input_of_a_key, as_an_update, as_a_key_of_an_update, of_a_command),
    *(of_a_tool, of_a_tool_in_a_list, as_retry_policy, as_cache_policy, as_timeout),
]


async def outcome(place: Any, value: Any) -> Any:
    """Hand a value to a place: the result without ids and addresses, or "refused"."""
    try:
        result = await place(value)
    except Exception:  # noqa: BLE001 - each library has its own words
        return "refused"
    for question in result.get("__interrupt__", ()) if isinstance(result, dict) else ():
        assert type(question) is actorgraph.Interrupt
    return re.sub(r"\b[0-9a-f]{32}\b|0x[0-9a-f]+", "...", repr(result))


@pytest.mark.one_loop
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
@pytest.mark.parametrize("name", VALUES)
async def test_a_value_means_what_ours_means(name, place):
    """
    Every class at every place: the result is that of this library's class, or the same refusal.
    """
    make = VALUES[name]

    assert await outcome(place, make(their_types)) == await outcome(place, make(actorgraph))


OUR_RULES = SimpleNamespace(
    **{name: getattr(actorgraph.channels, name) for name in actorgraph.channels.__all__}
)
THEIR_RULES = SimpleNamespace(
    **{name: getattr(their_channels, name) for name in their_channels.__all__},
)


def fold_all(value: list, writes: list) -> list:
    return [*value, *(part for write in writes for part in write)]


RULES = {
    "LastValue": lambda of: Annotated[list, of.LastValue],
    "LastValue object": lambda of: Annotated[list, of.LastValue(list)],
    "AnyValue": lambda of: Annotated[list, of.AnyValue],
    "Topic": lambda of: Annotated[list, of.Topic],
    "Topic that keeps": lambda of: Annotated[list, of.Topic(str, accumulate=True)],
    "BinaryOperatorAggregate": lambda of: Annotated[
        list, of.BinaryOperatorAggregate(list, operator.add)
    ],
    "BinaryOperatorAggregate class": lambda of: Annotated[list, of.BinaryOperatorAggregate],
    "EphemeralValue": lambda of: Annotated[list, of.EphemeralValue],
    "EphemeralValue unguarded": lambda of: Annotated[list, of.EphemeralValue(list, guard=False)],
    "UntrackedValue": lambda of: Annotated[list, of.UntrackedValue],
    "UntrackedValue object": lambda of: Annotated[list, of.UntrackedValue(list, guard=False)],
    "DeltaChannel": lambda of: Annotated[list, of.DeltaChannel(fold_all)],
    "LastValueAfterFinish": lambda of: Annotated[list, of.LastValueAfterFinish],
    "NamedBarrierValue": lambda of: Annotated[str, of.NamedBarrierValue(str, {"a"})],
    "NamedBarrierValue class": lambda of: Annotated[str, of.NamedBarrierValue],
    "bare object": lambda of: of.Topic(str, accumulate=True),
}


async def folded(annotation: Any) -> Any:
    """States of a run whose two parallel nodes, and one after them, write to the key."""
    kind = TypedDict("kind", {"x": annotation, "n": int}, total=False)  # noqa: UP013

    def write(state: Any) -> Any:
        return {"x": ["a"]}

    builder = StateGraph(kind)
    for name in ("a", "b"):
        builder.add_node(name, write).add_edge(START, name).add_edge(name, "c")
    builder.add_node("c", write).add_edge("c", "d").add_node("d", lambda state: {"n": 1})
    graph = builder.compile(checkpointer=InMemorySaver())
    states = [state async for state in graph.astream({"n": 0}, at(), stream_mode="values")]
    stored = [s.values async for s in graph.aget_state_history(at())]
    return states, stored


@pytest.mark.parametrize("name", RULES)
async def test_a_channel_in_an_annotation_folds_as_ours(name):
    """
    Channel classes and objects of LangGraph in a state: same states, same stored checkpoints.
    """

    async def run(of: Any) -> Any:
        try:
            return repr(await folded(RULES[name](of)))
        except Exception as error:  # noqa: BLE001 - the refusal is what is compared
            return error

    ours, theirs = await run(OUR_RULES), await run(THEIR_RULES)

    if isinstance(ours, Exception):
        assert isinstance(theirs, Exception)
    else:
        assert theirs == ours


def test_every_channel_is_in_the_table():
    """
    A channel that LangGraph exports has a row.
    """
    names = {name for name in vars(THEIR_RULES) if name != "BaseChannel"}

    assert {row.split()[0] for row in RULES} - {"bare"} >= names - {"NamedBarrierValueAfterFinish"}


async def test_a_channel_of_the_program_itself():
    """
    A subclass of LangGraph's BaseChannel is updated, stored and restored as a channel.
    """

    class Longest(their_channels.base.BaseChannel):
        ValueType = UpdateType = str

        def __init__(self, typ, key=""):
            super().__init__(typ, key)
            self.value = their_types.MISSING if hasattr(their_types, "MISSING") else None

        def from_checkpoint(self, checkpoint):
            made = type(self)(self.typ, self.key)
            made.value = checkpoint if isinstance(checkpoint, str) else None
            return made

        def get(self):
            if self.value is None:
                raise their_channels.base.EmptyChannelError
            return self.value

        def update(self, values):
            new = max([*values, self.value or ""], key=len)
            changed, self.value = bool(values) and new != self.value, new or None
            return changed

    class State(TypedDict, total=False):
        word: Annotated[str, Longest]
        n: int

    builder = StateGraph(State)
    for name in ("aa", "b"):
        builder.add_node(name, lambda state, name=name: {"word": name}).add_edge(START, name)
    graph = builder.compile(checkpointer=InMemorySaver())

    assert await graph.ainvoke({"n": 1}, at()) == {"word": "aa", "n": 1}
    assert (await graph.ainvoke({"word": "ccc"}, at()))["word"] == "ccc"


@pytest.mark.parametrize(
    ("steps", "last"),
    [(TheirRemaining, TheirLast), (actorgraph.RemainingSteps, actorgraph.IsLastStep)],
)
async def test_managed_values(steps, last):
    """
    LangGraph's RemainingSteps and IsLastStep are computed for nodes, and are not in the state.
    """

    class State(TypedDict, total=False):
        seen: list
        left: steps
        end: last

    builder = StateGraph(State).add_node("n", lambda s: {"seen": [s["left"], s["end"]]})
    graph = builder.add_edge(START, "n").compile()

    assert await graph.ainvoke({}, {"recursion_limit": 7}) == {"seen": [6, False]}


async def test_a_managed_value_of_the_program_itself_is_refused():
    """
    It would read LangGraph's scratchpad: the schema is refused before a graph is made.
    """

    class Own(__import__("langgraph.managed.base", fromlist=["x"]).ManagedValue):
        @staticmethod
        def get(scratchpad):
            return 1

    class State(TypedDict):
        x: Annotated[int, Own]

    with pytest.raises(SchemaError, match="Own is a managed value of LangGraph"):
        StateGraph(State)


async def test_their_reducer_of_messages_gives_lasting_ids():
    """
    LangGraph's add_messages is this library's: what is streamed has the ids that are stored.
    """

    class State(TypedDict):
        messages: Annotated[list, their_add_messages]

    graph = StateGraph(State).add_node("n", lambda state: {"messages": [("ai", "hi")]})
    graph = graph.add_edge(START, "n").compile(checkpointer=InMemorySaver())

    (update,) = [u async for u in graph.astream({"messages": []}, at())]
    streamed = update["n"]["messages"]
    (stored,) = (await graph.aget_state(at())).values["messages"]

    assert [m.id for m in streamed] == [stored.id]
    assert type(stored).__module__.startswith("langchain_core")


MARKS = {
    "state": (Annotated[Any, TheirState], Annotated[Any, InjectedState]),
    "key": (Annotated[Any, TheirState("count")], Annotated[Any, InjectedState("count")]),
    "store": (Annotated[Any, TheirStore()], Annotated[Any, InjectedStore()]),
    "store class": (Annotated[Any, TheirStore], Annotated[Any, InjectedStore]),
    "runtime": (TheirToolRuntime, ToolRuntime),
    "runtime of": (TheirToolRuntime[None, Log], ToolRuntime[None, Log]),
}


@pytest.mark.parametrize("mark", MARKS)
async def test_annotations_of_tools_inject_the_same(mark):
    """
    A tool with LangGraph's marks gets what one with this library's marks gets, hidden from models.
    """
    seen = []
    tools = []
    for kind in MARKS[mark]:

        def act(word: str, given: kind) -> str:  # type: ignore[valid-type]
            """Act."""
            seen.append(given)
            return word

        act.__annotations__["given"] = kind
        tools.append(act)
    for tool in tools:
        asks = AIMessage("", tool_calls=[{"name": "act", "args": {"word": "w"}, "id": "c1"}])
        node = ToolNode([tool])
        builder = StateGraph(Log).add_node("n", node).add_edge(START, "n")
        graph = builder.compile(store=InMemoryStore())
        await graph.ainvoke({"messages": [asks], "count": 5})
        assert list(node.tools_by_name["act"].args_schema["properties"]) == ["word"]

    theirs, ours = seen
    assert type(theirs) is type(ours)
    if mark in ("state", "key"):
        assert theirs == ours


async def test_their_store_and_cache_serve_nodes():
    """
    LangGraph's store and cache as arguments of `compile`.
    """
    from langgraph.cache.memory import InMemoryCache as TheirCache

    store, calls = TheirMemoryStore(), []

    async def node(state, store):
        calls.append(1)
        await store.aput(("a",), "k", {"v": 1})
        return {"log": [(await store.aget(("a",), "k")).value["v"]]}

    def key_of(state):
        """The key says that what the store holds doesn't change the result."""
        get_store()
        return "n"

    policy = their_types.CachePolicy(key_func=key_of)
    builder = StateGraph(Log).add_node("n", node, cache_policy=policy).add_edge(START, "n")
    graph = builder.compile(store=store, cache=TheirCache())

    assert await graph.ainvoke({"log": []}) == {"log": [1]}
    assert await graph.ainvoke({"log": []}) == {"log": [1]}
    assert (store.get(("a",), "k").value, len(calls)) == ({"v": 1}, 1)
    assert END == "__end__"
