"""Methods that a program overrides in a subclass of ours are called, or refused when it is made.

Each public class of a kind that programs subclass is found by itself, and so is each of its
methods; a new class of another kind has to be given a place in `OTHERS`.
"""

import dataclasses
import inspect
import operator
from collections.abc import Callable
from types import SimpleNamespace
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

import actorgraph
from actorgraph import (
    START,
    BaseCache,
    BaseCheckpointSaver,
    CachePolicy,
    Codec,
    Command,
    ForeignSaverWarning,
    GraphBuildError,
    InMemorySaver,
    JsonlSaver,
    SqliteCache,
    SqliteSaver,
    StateGraph,
    channels,
    interrupt,
    prebuilt,
    stores,
)
from actorgraph.api.savers.hosted import RUN_METHODS, HostedSaver
from actorgraph.messages import AIMessage
from tests.support.graphs import at
from tests.support.recording_subclasses import cases, is_data, kinds, overriding, public_classes

OTHERS = {
    *("ActorSystem", "AuditLog", "AesCipher", "CompiledStateGraph", "Pregel", "StateGraph"),
    *("NodeBuilder", "Run", "RunControl", "SimpleSaver", "TaskFunction", "TaskFuture"),
    *(
        "entrypoint",
        "ChatCompletions",
        "StreamChannel",
        "GraphCallbackHandler",
        "ToolCallStream",
        "NotProvided",
    ),
    *("InjectedState", "InjectedStore", "InjectedToolCallId", "ValidationNode", "Item"),
    *("SearchItem", "AgentStatePydantic", "AgentStateWithStructuredResponsePydantic"),
}
"""Classes whose methods a program calls itself, data, and interfaces made to be written anew."""

OTHER_ENDINGS = ("Transformer", "Stream", "Error", "Warning")


def test_each_public_class_has_its_check():
    """
    A public class is one whose overridden methods are tested here, data, or known to be neither.
    """
    bases = (HostedSaver, channels.Channel, channels.BaseChannel, stores.BaseStore, BaseCache)
    checked = (*bases, Codec, prebuilt.ToolNode, BaseCheckpointSaver)
    left = [
        kind.__name__
        for kind in public_classes()
        if not issubclass(kind, checked)
        and not is_data(kind)
        and not kind.__name__.endswith(OTHER_ENDINGS)
    ]

    assert set(left) <= OTHERS


# --- savers ---

PORT = ("open", "commit", "query", "close")
AT_ONCE = ("commit_now", "query_now")


class Answer(TypedDict, total=False):
    text: str
    kept: dict[str, int]


def threads(saver: Any) -> None:
    """A program that stores, asks, goes on, reads history and changes what is stored."""
    builder = StateGraph(Answer).add_node("ask", lambda state: {"text": interrupt("name?")})
    builder.add_node("also", lambda state: {"kept": {"a": 1}})
    graph = builder.add_edge(START, "ask").add_edge(START, "also").compile(checkpointer=saver)
    graph.invoke({"text": ""}, at())
    assert graph.invoke(Command(resume="Ada"), at()) == {"text": "Ada", "kept": {"a": 1}}
    assert len(list(graph.get_state_history(at()))) == 3
    graph.update_state(at(), {"text": "Bob"})
    assert graph.get_state(at()).values["text"] == "Bob"


def saver_of(kind: type, folder: Any) -> Any:
    if issubclass(kind, InMemorySaver):
        return kind()
    if issubclass(kind, SqliteSaver):
        return kind(folder / "runs.db")
    if issubclass(kind, JsonlSaver):
        return kind(folder / "threads")
    return None


WRAPPERS = [k for k in kinds(HostedSaver) if not k.__module__.endswith("_saver")]
WRAPPERS = [k for k in WRAPPERS if k is not InMemorySaver]
"""Savers around savers, whose subclasses override the port; PostgreSQL's shares SQLite's class."""


@pytest.mark.filterwarnings("ignore::actorgraph.errors.ForeignSaverWarning")
@pytest.mark.parametrize(("kind", "name"), cases(HostedSaver, *WRAPPERS))
def test_a_saver(kind, name, tmp_path):
    """
    The methods of a saver that LangGraph's runs call, and the port, are called; a method with an
    async twin that is called instead is refused; all else is called by programs only.
    """
    calls: list[str] = []
    own = overriding(kind, name, calls)
    saver = own and saver_of(own, tmp_path)
    if own is None or saver is None:
        refused = own is None
        assert refused or "Postgres" in kind.__name__
        assert not refused or name not in RUN_METHODS
        return
    threads(saver)
    saver.close_blocking()
    if name.removeprefix("a") in RUN_METHODS or name in PORT:
        assert name in calls
    elif name in AT_ONCE:
        assert (name in calls) == saver.immediate
    elif name.startswith("a") and hasattr(kind, name[1:]):
        assert name == "aget" or f"self.{name}" in inspect.getsource(getattr(kind, name[1:]))


def test_a_saver_that_a_mixin_changes(tmp_path):
    """
    The override may come from a class beside ours, and values of the state's types are stored.
    """
    calls: list[str] = []

    class Noting:
        def put(self, *args):
            calls.append("put")
            return super().put(*args)

    class Saver(Noting, SqliteSaver):
        pass

    @dataclasses.dataclass
    class Point:
        x: int

    class State(TypedDict):
        point: Point

    builder = StateGraph(State).add_node("n", lambda state: {"point": Point(state["point"].x + 1)})
    with pytest.warns(ForeignSaverWarning, match="Saver overrides put, so it works"):
        graph = builder.add_edge(START, "n").compile(checkpointer=Saver(tmp_path / "runs.db"))

    assert graph.invoke({"point": Point(1)}, at()) == {"point": Point(2)}
    assert graph.get_state(at()).values == {"point": Point(2)}
    assert calls == ["put"] * 3


# --- channels ---

LANGGRAPHS = ("update", "get", "is_available", "checkpoint", "from_checkpoint")
RULES: dict[str, Callable[[type], Any]] = {
    "BinaryOperatorAggregate": lambda kind: kind(list, operator.add),
    "DeltaChannel": lambda kind: kind(
        lambda value, writes: sum(writes, value), snapshot_frequency=1
    ),
    "NamedBarrierValue": lambda kind: kind(str, {"x"}),
    "NamedBarrierValueAfterFinish": lambda kind: kind(str, {"x"}),
    "Topic": lambda kind: kind(list),
}


def declared(channel: Any) -> Any:
    """A graph that writes the cell, is idle, triggers nodes, ends, and is read again."""
    schema: Any = TypedDict("State", {"cell": Annotated[list, channel], "other": int}, total=False)
    written = "x" if "Barrier" in type(channel).__name__ else ["x"]
    builder = StateGraph(schema).add_node("write", lambda state: {"cell": written})
    builder.add_node("read", lambda state: {"other": len(str(state.get("cell")))})
    builder.add_edge(START, "write").add_edge("write", "read")
    saver = InMemorySaver()
    graph = builder.compile(checkpointer=saver)
    graph.invoke({"other": 0}, at())
    graph.invoke({"other": 1}, at())
    list(graph.get_state_history(at()))
    return graph


@pytest.mark.parametrize(("kind", "name"), cases(channels.Channel))
def test_a_channel(kind, name):
    """
    Each rule that a subclass overrides is asked, whether or not the class above it has such.
    """
    calls: list[str] = []
    own = overriding(kind, name, calls)
    if own is None:
        assert kind is channels.UntrackedValue
        assert name in ("dump", "load")
        return
    if kind is channels.Channel:
        if name == "fold":
            return  # abstract
        own = type("Own", (own,), {"fold": lambda self, key, value, writes: writes[-1]})
    made = RULES.get(kind.__name__, lambda cls: cls(list))(own)
    if name == "consume":  # asked of a cell that triggers nodes, which only raw graphs have
        assert own.consumable
        return
    declared(made)
    if name == "same_rule":
        declared(made).plan.channels["cell"].same_rule(made)

    assert name in calls


@pytest.mark.parametrize("name", LANGGRAPHS)
@pytest.mark.parametrize("kind", [k for k in kinds(channels.Channel) if k is not channels.Channel])
def test_langgraphs_methods_of_a_channel_are_refused(kind, name):
    """
    A rule has no value of its own to update; the error says what to write instead.
    """
    with pytest.raises(GraphBuildError, match=rf"Own overrides {name}.*") as refused:
        type("Own", (kind,), {name: lambda self, *args: None, "__module__": __name__})
    assert "fold(name, value, writes)" in str(refused.value)
    type("Own", (kind,), {name: print, "fold": kind.fold, "__module__": __name__})  # its own helper


@pytest.mark.parametrize("name", ["consume", "finish"])
def test_a_rule_without_the_cells_value_is_refused(name):
    """
    LangGraph's `consume` and `finish` take nothing; ours take the cell's value.
    """
    with pytest.raises(GraphBuildError, match=rf"Own.{name}\(\) doesn't take the cell's value"):
        type("Own", (channels.LastValue,), {name: lambda self: False, "__module__": __name__})


# --- stores and caches ---

STORE_WORK: dict[str, Callable[[Any], Any]] = {
    "get": lambda store: store.get(("a",), "k"),
    "put": lambda store: store.put(("a",), "k", {"v": 1}),
    "search": lambda store: store.search(("a",)),
    "delete": lambda store: store.delete(("a",), "k"),
    "list_namespaces": lambda store: store.list_namespaces(),
}


def store_of(kind: type, folder: Any) -> Any:
    if issubclass(kind, (stores.PostgresStore, stores.AsyncBatchedBaseStore)):
        return None
    if issubclass(kind, stores.SqliteStore):
        return kind(folder / "store.db")
    return kind() if not inspect.isabstract(kind) else None


@pytest.mark.parametrize("kind", [k for k in kinds(stores.BaseStore) if k is not stores.BaseStore])
async def test_a_store(kind, tmp_path):
    """
    Nodes get the very object; each of its methods goes through `batch` or `abatch`.
    """
    calls: list[str] = []
    own = overriding(overriding(kind, "batch", calls), "abatch", calls)
    store = store_of(own, tmp_path)
    if store is None:
        return
    seen: list[Any] = []

    def node(state, *, store):
        seen.append(store)

    builder = StateGraph(Answer).add_node("n", node).add_edge(START, "n")
    await builder.compile(store=store).ainvoke({"text": ""})
    for name, work in STORE_WORK.items():
        calls.clear()
        work(store)
        assert (name, calls) == (name, ["batch"])
        calls.clear()
        await work(SimpleNamespace(**{name: getattr(store, f"a{name}")}))
        assert (name, calls) == (name, ["abatch"])
    store.close()

    assert seen == [store]


@pytest.mark.parametrize("name", ["get", "set", "aget", "aset"])
@pytest.mark.parametrize("kind", kinds(BaseCache))
async def test_a_cache(kind, name, tmp_path):
    """
    Either form of a method that a subclass overrides is called by nodes.
    """
    calls: list[str] = []
    own = overriding(kind, name, calls)
    if inspect.isabstract(own) or kind is BaseCache:
        return
    cache = own(tmp_path / "cache.db") if issubclass(kind, SqliteCache) else own()
    builder = StateGraph(Answer).add_edge(START, "n")
    builder.add_node("n", lambda state: {"text": "x"}, cache_policy=CachePolicy())
    await builder.compile(cache=cache).ainvoke({"text": ""})

    assert calls == [name]


# --- codecs and tool nodes ---


@pytest.mark.parametrize("name", ["encode", "decode"])
def test_a_codec(name):
    """
    Every value passes through it, small numbers too, which otherwise are in the record itself.
    """
    seen: list[Any] = []

    class Own(Codec):
        pass

    def method(self, value, *args):
        seen.append(value)
        made = getattr(Codec, name)(self, value, *args)
        return seen.append(made) or made

    setattr(Own, name, method)
    threads(InMemorySaver(codec=Own()))

    class State(TypedDict):
        number: int

    builder = StateGraph(State).add_node("n", lambda state: {"number": 7}).add_edge(START, "n")
    graph = builder.compile(checkpointer=InMemorySaver(codec=Own()))
    graph.invoke({"number": 1}, at())

    assert graph.get_state(at()).values == {"number": 7}
    assert 7 in seen


@pytest.mark.parametrize("name", ["dumps_typed", "loads_typed"])
def test_langgraphs_methods_of_a_codec_are_refused(name):
    """
    A Codec stores nothing by them; a class of the program's own with both does.
    """
    with pytest.raises(GraphBuildError, match=f"Own overrides {name}, which a Codec does"):
        type("Own", (Codec,), {name: lambda self, value: value, "__module__": __name__})


@pytest.mark.parametrize("name", ["invoke", "ainvoke"])
async def test_a_tool_node(name):
    """
    Either form counts where it is a node of a graph.
    """
    calls: list[str] = []

    def act() -> str:
        """Act."""
        return "done"

    own = overriding(prebuilt.ToolNode, name, calls)
    asks = AIMessage("", tool_calls=[{"name": "act", "args": {}, "id": "c1"}])
    builder = StateGraph(actorgraph.MessagesState).add_node("tools", own([act]))
    result = await builder.add_edge(START, "tools").compile().ainvoke({"messages": [asks]})

    assert result["messages"][-1].content == "done"
    assert calls == [name]
