"""Cached results of nodes that read the context, the config or a store: whose they are."""

import warnings
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import Any, TypedDict

import pytest
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langchain_core.runnables.config import ensure_config
from pydantic import BaseModel

from actorgraph import (
    START,
    CachePolicy,
    InMemoryCache,
    InMemorySaver,
    Runtime,
    StateGraph,
    entrypoint,
    get_config,
    get_runtime,
    get_store,
    task,
)
from actorgraph.errors import CacheWarning
from actorgraph.stores import InMemoryStore
from actorgraph.types import RunControl

pytestmark = pytest.mark.first_case


class State(TypedDict, total=False):
    question: str
    answer: str


class Context(TypedDict):
    user: str


@dataclass
class Settings:
    user: str


class Model(BaseModel):
    user: str


CALLS: list[str] = []


def answered(user: Any) -> State:
    CALLS.append(str(user))
    return {"answer": f"of {user}"}


def by_runtime(state: State, runtime: Runtime[Context]) -> State:
    return answered(runtime.context["user"])


def by_copy(state: State, runtime: Runtime[Context]) -> State:
    return answered(copy(runtime).context["user"])


def by_get_runtime(state: State) -> State:
    return answered(get_runtime(Context).context["user"])


def by_config(state: State, config: RunnableConfig) -> State:
    return answered(config["configurable"]["user"])


def by_get(state: State, config: RunnableConfig) -> State:
    return answered(config.get("configurable", {}).get("user"))


def by_get_config(state: State) -> State:
    return answered(get_config()["configurable"]["user"])


def by_langchain(state: State) -> State:
    return answered(ensure_config()["configurable"]["user"])


def by_runnable(state: State, config: RunnableConfig) -> State:
    def read(_: Any, config: RunnableConfig) -> Any:
        return config["configurable"]["user"]

    return answered(RunnableLambda(read).invoke("", config))


def by_metadata(state: State, config: RunnableConfig) -> State:
    return answered(config["metadata"]["tenant"])


@task
def reading_task() -> str:
    return str(get_runtime(Context).context["user"])


def by_task(state: State) -> State:
    return answered(reading_task().result())


def by_graph(state: State) -> State:
    below = StateGraph(State, Context).add_node("below", by_runtime).add_edge(START, "below")
    return {"answer": below.compile().invoke({"question": "?"})["answer"]}


def by_cached_graph(state: State) -> State:
    below = StateGraph(State, Context).add_node("below", by_runtime, cache_policy=CachePolicy())
    return {"answer": below.add_edge(START, "below").compile().invoke({"question": "?"})["answer"]}


def by_tags(state: State, config: RunnableConfig) -> State:
    return answered(config.get("tags", [""])[0])


def by_joined_tags(state: State) -> State:
    return answered("".join(get_config()["tags"]))


def by_copied_tags(state: State) -> State:
    return answered(ensure_config()["tags"][0])


def by_tags_in_runnable(state: State, config: RunnableConfig) -> State:
    def read(_: Any, config: RunnableConfig) -> Any:
        return (config.get("tags") or [""])[0]

    return answered(RunnableLambda(read).invoke("", config))


def by_merged_metadata(state: State, config: RunnableConfig) -> State:
    def read(_: Any, config: RunnableConfig) -> Any:
        return (config.get("metadata") or {})["tenant"]

    own = RunnableLambda(read).with_config(metadata={"own": 1})
    return answered(own.invoke("", config))


def by_placed_metadata(state: State, config: RunnableConfig) -> State:
    return answered(config["metadata"]["assistant_id"])


def by_reserved_metadata(state: State, config: RunnableConfig) -> State:
    return answered(config["metadata"]["langgraph_auth_user_id"])


def by_own_key(state: State, config: RunnableConfig) -> State:
    return answered(config["configurable"]["__user"])


def by_limit(state: State, config: RunnableConfig) -> State:
    return answered({30: "ada", 40: "bob"}[config.get("recursion_limit", 0)])


def by_copied_limit(state: State) -> State:
    return answered({30: "ada", 40: "bob"}[ensure_config()["recursion_limit"]])


def by_model(state: State, config: RunnableConfig) -> State:
    return answered(Model.model_validate(config["configurable"]).user)


TAG_READERS = (by_tags, by_joined_tags, by_copied_tags, by_tags_in_runnable)
LIMIT_READERS = (by_limit, by_copied_limit)
LIMITS = {"ada": 30, "bob": 40}


async def by_async(state: State) -> State:
    return answered(get_config()["configurable"]["user"])


READERS = [
    *(by_runtime, by_get_runtime, by_config, by_get, by_get_config, by_langchain),
    *(by_copy, by_runnable, by_metadata, by_task, by_graph, by_cached_graph, by_async),
]


def cached(node: Any, policy: Any = None, **options: Any) -> Any:
    builder = StateGraph(State, Context).add_node("n", node, cache_policy=policy or CachePolicy())
    return builder.add_edge(START, "n").compile(cache=InMemoryCache(), **options)


async def ask(graph: Any, user: str, thread: str = "t", **more: Any) -> str:
    """Ask the same question as one user on one thread."""
    place = {"user": user, "thread_id": thread, **more.pop("configurable", {})}
    config = {"configurable": place, "metadata": {"tenant": user}}
    found = await graph.ainvoke({"question": "?"}, config, **{"context": {"user": user}, **more})
    return found["answer"]


@pytest.fixture(autouse=True)
def none_called():
    """Begin without calls."""
    CALLS.clear()


@pytest.mark.parametrize("node", READERS, ids=lambda node: node.__name__)
async def test_each_user_gets_an_own_result_and_gets_it_again(node):
    """
    A node that reads who asks, by any way, is called once for each who asks: again it is found.
    Each asks on a thread of its own, whose state is the same.
    """
    graph = cached(node, checkpointer=InMemorySaver())

    asked = [(user, f"{user} {number}") for number in (1, 2) for user in ("ada", "bob")]
    found = [await ask(graph, user, thread) for user, thread in asked]

    assert found == ["of ada", "of bob"] * 2
    assert CALLS == ["ada", "bob"]


PARTS: list[tuple[Callable[..., Any], Callable[[str], dict[str, Any]]]] = [
    *((node, lambda user: {"tags": [user]}) for node in TAG_READERS),
    *(
        (node, lambda user: {"recursion_limit": LIMITS[user], "tags": ["one"]})
        for node in LIMIT_READERS
    ),
    (by_merged_metadata, lambda user: {"metadata": {"tenant": user}}),
    (by_reserved_metadata, lambda user: {"metadata": {"langgraph_auth_user_id": user}}),
    (by_placed_metadata, lambda user: {"configurable": {"assistant_id": user}}),
    (by_own_key, lambda user: {"configurable": {"__user": user}}),
    (by_model, lambda user: {"configurable": {"user": user}}),
]


@pytest.mark.parametrize(("node", "config"), PARTS, ids=lambda each: each.__name__)
async def test_each_part_of_a_config_is_in_the_key(node, config):
    """
    Of two configs that differ in one part neither gets the other's result if the node reads it.
    """
    graph = cached(node)

    found = [
        (await graph.ainvoke({"question": "?"}, config(user)))["answer"]
        for user in ("ada", "bob", "ada")
    ]

    assert found == ["of ada", "of bob", "of ada"]
    assert CALLS == ["ada", "bob"]


async def test_a_request_to_stop_is_in_the_key():
    """
    A result that is made because the run was requested to stop isn't found by a later run.
    """
    control = RunControl()

    def node(state: State, runtime: Runtime[Any]) -> State:
        if not CALLS:
            control.request_drain("deployment")
        return answered("a part" if runtime.drain_requested else "all")

    graph = cached(node)
    await graph.ainvoke({"question": "?"}, control=control)

    assert (await graph.ainvoke({"question": "?"}))["answer"] == "of all"


async def test_a_node_that_reads_nothing_shares_its_result():
    """
    The key leaves out a context and a config that a node doesn't read, also if they can't be
    stored, and the writer of its runtime.
    """

    def node(state: State, runtime: Runtime[Context], config: RunnableConfig) -> State:
        runtime.stream_writer("begun")
        return answered("anyone")

    graph = cached(node)

    for user in ("ada", "bob"):
        await ask(graph, user, configurable={"client": object()})

    assert CALLS == ["anyone"]


@pytest.mark.parametrize("kind", [Settings, Model], ids=["dataclass", "pydantic"])
async def test_contexts_of_each_kind(kind):
    """
    Objects of a context schema are distinguished by their fields.
    """

    def node(state: State, runtime: Runtime[Any]) -> State:
        return answered(runtime.context.user)

    builder = StateGraph(State, kind).add_node("n", node, cache_policy=CachePolicy())
    graph = builder.add_edge(START, "n").compile(cache=InMemoryCache())

    for user in ("ada", "bob", "ada"):
        assert await ask(graph, user, context=kind(user=user)) == f"of {user}"
    assert CALLS == ["ada", "bob"]


async def test_reads_that_depend_on_other_reads():
    """
    A node that reads the config only for some contexts never takes another one's result.
    """

    def node(state: State, runtime: Runtime[Context], config: RunnableConfig) -> State:
        user = runtime.context["user"]
        return answered(user if user == "ada" else config["configurable"]["unit"])

    graph = cached(node)
    asked = [("ada", "x"), ("bob", "x"), ("ada", "y"), ("bob", "y"), ("bob", "x"), ("ada", "x")]

    found = [await ask(graph, user, configurable={"unit": unit}) for user, unit in asked]

    assert found == ["of ada", "of x", "of ada", "of y", "of x", "of ada"]


@pytest.mark.parametrize("way", ["config", "runtime", "copy"])
async def test_a_node_that_reads_the_thread(way):
    """
    The thread's id is part of the key for a node that reads it itself.
    """

    def node(state: State, config: RunnableConfig, runtime: Runtime[Context]) -> State:
        if way == "runtime":
            info = runtime.execution_info
            return answered(info.thread_id if info else None)
        place = config["configurable"]
        return answered((place if way == "config" else dict(place))["thread_id"])

    graph = cached(node, checkpointer=InMemorySaver())

    assert [await ask(graph, "ada", thread) for thread in "1212"] == ["of 1", "of 2"] * 2


WHOLE: dict[str, Callable[[dict[str, Any]], Any]] = {
    "merged": lambda place: (place | {"x": 1})["user"],
    "merged into": lambda place: ({"x": 1} | place)["user"],
    "compared": lambda place: (
        "ada"
        if place == {**{k: dict.get(place, k) for k in dict.keys(place)}, "user": "ada"}
        else "bob"
    ),
    "taken out": lambda place: place.setdefault("user", ""),
    "as a text": lambda place: "bob" if "'bob'" in f"{place}" else "ada",
}


@pytest.mark.parametrize("read", WHOLE.values(), ids=WHOLE)
async def test_a_node_that_takes_the_whole_config(read: Callable[[dict[str, Any]], Any]):
    """
    A config that is merged with another dict, or made a text, has been read.
    """

    def node(state: State, config: RunnableConfig) -> State:
        return answered(read(config["configurable"]))

    graph = cached(node)

    for user in ("ada", "bob"):
        assert await ask(graph, user, configurable={"user": user}) == f"of {user}"


class TestKeyFunctions:
    async def test_it_need_not_name_what_the_node_reads(self):
        """
        A `key_func` of the input alone doesn't mix users up.
        """
        graph = cached(by_runtime, CachePolicy(key_func=lambda s: s["question"]))

        assert [await ask(graph, user) for user in ("ada", "bob")] == ["of ada", "of bob"]

    async def test_it_may_say_what_of_it_counts(self):
        """
        A `key_func` that reads the context decides what of it is in the key.
        """
        policy = CachePolicy(key_func=lambda s: get_runtime().context["user"][0])
        graph = cached(by_runtime, policy)

        found = [await ask(graph, user) for user in ("ada", "bob", "abe")]

        assert found == ["of ada", "of bob", "of ada"]


class TestStores:
    @pytest.mark.parametrize("way", ["parameter", "get_store", "runtime"])
    async def test_a_result_from_a_store_is_not_kept(self, way):
        """
        A node that reads a store is called each time, with a warning that names it and the cure.
        """

        def by_parameter(state: State, store: Any) -> State:
            return answered(store.get(("users",), "name").value["name"])

        def read(state: State) -> State:
            store = get_store() if way == "get_store" else get_runtime().store
            return answered(store.get(("users",), "name").value["name"] if store else None)

        store = InMemoryStore()
        graph = cached(by_parameter if way == "parameter" else read, store=store)
        found = []
        for user in ("ada", "bob"):
            await store.aput(("users",), "name", {"name": user})
            with pytest.warns(CacheWarning, match="'n' is not cached: it has read a store"):
                found.append(await ask(graph, "one"))

        assert found == ["of ada", "of bob"]

    async def test_a_key_function_that_reads_the_store(self):
        """
        A `key_func` that reads the store itself makes the result one that is kept.
        """

        def name() -> str:
            store = get_store()
            assert store is not None
            item = store.get(("users",), "name")
            assert item is not None
            return str(item.value["name"])

        store = InMemoryStore()
        policy = CachePolicy(key_func=lambda s: name())
        graph = cached(lambda s: answered(name()), policy, store=store)

        for user in ("ada", "bob", "ada"):
            await store.aput(("users",), "name", {"name": user})
            assert await ask(graph, "one") == f"of {user}"
        assert CALLS == ["ada", "bob"]


async def test_a_context_that_no_key_can_hold():
    """
    A node that reads a context with an object that can't be encoded is called each time, with a
    warning.
    """
    graph = cached(lambda s: answered(get_runtime().context["user"]))
    found = []
    for user in ("ada", "bob"):
        with pytest.warns(CacheWarning, match="what it reads besides its input can't be encoded"):
            found.append(await ask(graph, user, context={"user": user, "client": object()}))

    assert found == ["of ada", "of bob"]


async def test_a_cached_task_reads_too():
    """
    A `@task` with a cache policy gives each user an own result.
    """

    @task(cache_policy=CachePolicy())
    def balance(question: str) -> str:
        return answered(get_config()["configurable"]["user"])["answer"]

    @entrypoint(cache=InMemoryCache())
    async def flow(question: Any) -> Any:
        return {"answer": await balance("?")}

    assert [await ask(flow, user) for user in ("ada", "bob", "ada")] == [
        *("of ada", "of bob", "of ada"),
    ]
    assert CALLS == ["ada", "bob"]


async def test_a_user_whom_the_server_knows():
    """
    The user of an authenticated request is distinguished by its fields.
    """

    class User:
        def __init__(self, identity: str) -> None:
            self.identity = identity

    def node(state: State, runtime: Runtime[Any]) -> State:
        info = runtime.server_info
        return answered(info.user.identity if info and info.user else None)

    graph = cached(node)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for user in ("ada", "bob", "ada"):
            place = {"langgraph_auth_user": User(user), "user": ""}
            assert await ask(graph, user, configurable=place) == f"of {user}"
    assert CALLS == ["ada", "bob"]


def test_users_have_own_results_beside_langgraph():
    """
    In a program that has imported LangGraph itself each user gets an own result too.
    """
    import langgraph.graph  # noqa: F401 - its runs get a runtime of its own class

    graph = StateGraph(State, Context).add_node(by_runtime, cache_policy=CachePolicy())
    compiled = graph.add_edge(START, "by_runtime").compile(cache=InMemoryCache())

    answers = [
        compiled.invoke({"question": "?"}, context={"user": user})["answer"]
        for user in ("ada", "bob", "ada")
    ]

    assert answers == ["of ada", "of bob", "of ada"]
