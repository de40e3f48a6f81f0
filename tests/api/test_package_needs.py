"""Needs of packages that build graphs: of a builder, a graph, its streams and its snapshots."""

from typing import Annotated, Any, ClassVar, TypedDict

from langchain_core.runnables import RunnableLambda

from actorgraph import Command, InMemorySaver, Send, SqliteSaver, StateGraph
from actorgraph.channels import BinaryOperatorAggregate
from actorgraph.messages import AIMessage, HumanMessage, ToolMessage, add_messages
from actorgraph.plan.schema import RemainingSteps, RemainingStepsManager
from actorgraph.prebuilt.models import needs_tools
from tests.support.graphs import at, in_a_row


class Conversation(TypedDict, total=False):
    messages: Annotated[list[Any], add_messages]
    left: RemainingSteps


async def nothing(_: Any) -> Any:
    return None


class TestSchemas:
    def test_a_builder_says_the_keys_of_its_schemas(self):
        """
        `builder.schemas` maps each schema to its keys: channels, and managed values.
        """
        found = StateGraph(Conversation).schemas

        assert list(found) == [Conversation]
        assert isinstance(found[Conversation]["messages"], BinaryOperatorAggregate)
        assert found[Conversation]["left"] is RemainingStepsManager


class TestNames:
    async def test_a_graph_can_be_renamed(self):
        """
        A package gives the graph that it has compiled a name; the graph still runs.
        """
        graph = in_a_row({"a": lambda state: {"foo": "a"}})

        graph.name = "TrustCall"

        assert graph.name == "TrustCall"
        assert (await graph.ainvoke({"foo": ""}))["foo"] == "a"


class TestSetup:
    async def test_setup_of_an_sqlite_saver_may_be_awaited(self, tmp_path):
        """
        Programs call `await saver.setup()` on each saver; SQLite's has its tables already.
        """
        async with SqliteSaver(tmp_path / "a.db") as saver:
            await saver.setup()

            assert await saver.aget_tuple(at("t")) is None


class TestHandOffs:
    async def test_an_update_for_the_parent_is_not_streamed_as_a_message_of_its_node(self):
        """
        Of messages that a subgraph hands to its parent, none is streamed a second time.
        """

        async def hand_over(_: Any) -> Any:
            given = [ToolMessage("moved", tool_call_id="1")]
            return Command(graph=Command.PARENT, goto="end", update={"messages": given})

        inner = in_a_row({"hand_over": hand_over}, schema=Conversation)
        graph = StateGraph(Conversation).add_node("inner", inner, destinations=("end",))
        graph.add_node("end", nothing)
        graph = graph.add_edge("__start__", "inner").compile()

        asked = {"messages": [HumanMessage("hi")]}
        chunks = [c async for c in graph.astream(asked, stream_mode="messages")]

        assert [message for message, _ in chunks if isinstance(message, ToolMessage)] == []
        assert (await graph.ainvoke(asked))["messages"][-1].content == "moved"

    async def test_messages_of_a_command_without_a_parent_are_streamed(self):
        """
        A Command within one graph streams the messages of its update.
        """

        async def go(_: Any) -> Any:
            return Command(goto="end", update={"messages": [AIMessage("moved")]})

        graph = in_a_row({"go": go, "end": nothing}, schema=Conversation)

        asked = {"messages": [HumanMessage("hi")]}
        chunks = [c async for c in graph.astream(asked, stream_mode="messages")]

        assert [message.content for message, _ in chunks] == ["moved"]


class TestPlaces:
    async def test_the_task_of_a_send_has_langgraphs_path(self):
        """
        A Send's task is shown as `("__pregel_push", number, False)`.
        """
        builder = StateGraph(Conversation).add_node("a", nothing)
        builder.add_conditional_edges("__start__", lambda _: [Send("a", {}), Send("a", {})])
        graph = builder.compile(InMemorySaver(), interrupt_before=["a"])

        await graph.ainvoke({"messages": []}, at("t"))

        tasks = (await graph.aget_state(at("t"))).tasks
        assert [task.path for task in tasks] == [("__pregel_push", n, False) for n in (0, 1)]

    async def test_a_copy_of_the_place_in_the_metadata_is_not_streamed(self):
        """
        LangChain copies a config's place into its metadata; `tasks` shows the caller's own keys.
        """
        graph = in_a_row({"a": lambda state: {"foo": "a"}})
        config = {"metadata": {"checkpoint_ns": "x:1", "langgraph_node": "x", "mine": 1}}

        chunks = [c async for c in graph.astream({"foo": ""}, config, stream_mode="tasks")]

        assert chunks[0]["metadata"] == {"mine": 1}


class Bound:
    """A model that is bound to tools, as LangChain's are."""

    kwargs: ClassVar = {"tools": [{"type": "function", "function": {"name": "add"}}]}


class TestTools:
    def test_a_bound_model_needs_no_tools(self):
        """
        A supervisor binds its tools only to a model that isn't bound yet.
        """
        assert needs_tools(object(), [])
        assert not needs_tools(Bound(), [])


class TestSubgraphs:
    def test_those_of_runnables_are_found(self):
        """
        A graph that a Runnable's function or a step of a sequence calls is its node's subgraph.
        """
        inner = in_a_row({"x": lambda state: {"foo": "x"}})
        by_function = RunnableLambda(lambda state: inner.invoke(state) | {})
        by_step = RunnableLambda(lambda state: state) | inner

        found = in_a_row({"a": by_function, "b": by_step, "c": RunnableLambda(lambda state: state)})

        assert found.subgraphs == {"a": inner, "b": inner}

    def test_a_runnable_whose_function_is_its_own_method_has_none(self):
        """
        The search for subgraphs ends when a Runnable calls a method of itself.
        """
        circular = RunnableLambda(lambda state: state)
        circular.func = circular.invoke

        assert in_a_row({"a": circular}).subgraphs == {}
