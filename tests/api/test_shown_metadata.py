"""Metadata that callbacks, streamed messages and nodes see: key by key LangGraph's."""

import re
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.runnables.config import ensure_config
from typing_extensions import TypedDict

from tests.support.both_libraries import OURS, THEIRS, one_node

ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
MODEL = FakeListChatModel(responses=["hi"])
BOUND = {"metadata": {"ls_integration": "mine", "agent": "bound"}}
CONFIG: dict[str, Any] = {
    "configurable": {
        "thread_id": "t",
        "assistant_id": "a",
        "graph_id": "g",
        "user": "ann",
        "__private": 1,
    },
    "metadata": {"tenant": "acme"},
    "tags": ["tagged"],
}


class Said(TypedDict, total=False):
    said: Any


def normal(value: Any) -> Any:
    """A value with ids replaced, and without versions of packages."""
    if isinstance(value, dict):
        return {k: normal(v) for k, v in value.items() if k != "lc_versions"}
    if isinstance(value, list | tuple):
        return [normal(one) for one in value]
    return ID.sub("<id>", str(value))


class Heard(BaseCallbackHandler):
    run_inline = True

    def __init__(self) -> None:
        self.rows: list[Any] = []

    def on_chain_start(self, serialized, inputs, *, metadata=None, **more):
        self.rows.append((more.get("name"), normal(metadata)))

    def on_chat_model_start(self, serialized, messages, *, metadata=None, **more):
        self.rows.append(("model", normal(metadata)))


def says(state: Said) -> Said:
    return {"said": MODEL.invoke("?").content}


def flat(lib: Any, **options: Any) -> Any:
    return one_node(lib, Said, says, **options)


def bound(lib: Any, **options: Any) -> Any:
    return flat(lib, **options).with_config(BOUND)


def nested(lib: Any, **options: Any) -> Any:
    return one_node(lib, Said, bound(lib), **options)


def deep(lib: Any, **options: Any) -> Any:
    return one_node(lib, Said, nested(lib), **options)


def called(lib: Any, **options: Any) -> Any:
    inner = bound(lib)

    def calls(state: Said) -> Said:
        return inner.invoke(state)

    return one_node(lib, Said, calls, **options)


SHAPES = [flat, bound, nested, deep, called]


@pytest.mark.langgraph
@pytest.mark.parametrize("make", SHAPES)
class TestMetadata:
    def test_callbacks_have_langgraphs_keys(self, make):
        """
        Runs, nodes and models are reported with the keys and values of LangGraph.
        """
        rows = []
        for lib in (OURS, THEIRS):
            heard = Heard()
            make(lib, checkpointer=lib.InMemorySaver()).invoke({}, {**CONFIG, "callbacks": [heard]})
            rows.append(heard.rows)

        assert rows[0] == rows[1]
        assert rows[0][0][1]["graph_id"] == "g"

    def test_streamed_messages_have_langgraphs_keys(self, make):
        """
        Pieces of a model's message come with the keys and values of LangGraph.
        """
        found = []
        for lib in (OURS, THEIRS):
            graph = make(lib, checkpointer=lib.InMemorySaver())
            chunks = graph.stream({}, CONFIG, stream_mode="messages", subgraphs=True)
            found.append([normal(metadata) for _, (_, metadata) in chunks])

        assert found[0] == found[1]
        assert found[0][0]["thread_id"] == "t"

    def test_the_place_of_a_task_is_not_stored_with_a_subgraph(self, make):
        """
        Checkpoints have the metadata of the call, with callbacks or without.
        """
        for callbacks in ([], [Heard()]):
            saver = OURS.InMemorySaver()
            graph = make(OURS, checkpointer=saver)
            config = {**CONFIG, "callbacks": callbacks}
            list(graph.stream({}, config, stream_mode="messages"))

            stored = [point.metadata for point in saver.list({"configurable": {"thread_id": "t"}})]
            assert stored
            assert all(metadata["tenant"] == "acme" for metadata in stored)
            keys = {key for metadata in stored for key in metadata}
            assert keys.isdisjoint({"thread_id", "assistant_id", "graph_id", "checkpoint_ns"})


@pytest.mark.langgraph
def test_a_node_finds_the_place_of_its_run_in_its_metadata():
    """
    The config of a node has the thread and the assistant in its metadata too.
    """
    found = []
    for lib in (OURS, THEIRS):
        seen: list[Any] = []

        def node(state: Said, config: Any, seen: list[Any] = seen) -> Said:
            seen.extend((normal(config["metadata"]), normal(ensure_config(config)["metadata"])))
            return {}

        node.__annotations__["config"] = "RunnableConfig"
        one_node(lib, Said, node, checkpointer=lib.InMemorySaver()).invoke({}, CONFIG)
        found.append(seen)

    assert found[0] == found[1]
