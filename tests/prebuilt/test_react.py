"""create_react_agent: the loop of a model and its tools, with any chat model."""

from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage as langchain_message  # noqa: N813

from actorgraph import END, START, Command, InMemorySaver, Runtime, StateGraph, interrupt
from actorgraph.errors import GraphBuildError, MissingExtraError
from actorgraph.messages import AIMessage
from actorgraph.prebuilt import AgentState, InjectedState, ToolNode, create_react_agent
from tests.prebuilt.scripted import ASKED, Answer, Script, calling, double, texts
from tests.support.graphs import at


class TestLoop:
    @pytest.mark.langgraph("F-M4")
    @pytest.mark.parametrize("version", ["v1", "v2"])
    async def test_tools_run_until_the_model_has_its_answer(self, version):
        """
        Calls are answered side by side and the model is asked again, in both versions.
        """
        model = Script(
            calling(("double", {"number": 4}), ("double", {"number": 5})), AIMessage("8")
        )
        agent = create_react_agent(model, [double], version=version)

        state = await agent.ainvoke(ASKED)

        assert texts(state) == ["2 x 4?", "", "8", "10", "8"]
        assert model.tools == [double]
        assert [len(given) for given in model.given] == [1, 4]

    @pytest.mark.langgraph("F-M4")
    async def test_a_model_may_be_a_function(self):
        """
        A function of the messages is a model, sync or async.
        """

        def parrot(messages):
            return AIMessage(messages[-1].content)

        async def shout(messages):
            return AIMessage(messages[-1].content.upper())

        for model, expected in ((parrot, "hi"), (shout, "HI")):
            state = await create_react_agent(model, []).ainvoke({"messages": ["hi"]})
            assert texts(state) == ["hi", expected]

    @pytest.mark.langgraph("F-M4")
    async def test_the_model_may_be_chosen_for_each_step(self):
        """
        A function of the state and the runtime gives the model that is asked next.
        """
        models = {
            "small": Script(calling(("double", {"number": 4}))),
            "big": Script(AIMessage("8")),
        }

        async def choose(state, runtime: Runtime):
            return models[runtime.context[len(state["messages"]) > 1]]

        agent = create_react_agent(choose, [double], context_schema=list)

        assert texts(await agent.ainvoke(ASKED, context=["small", "big"]))[-1] == "8"
        assert [len(model.given) for model in models.values()] == [1, 1]

    def test_it_runs_without_a_loop(self):
        """
        The blocking methods run the same agent.
        """
        agent = create_react_agent(Script(AIMessage("hello")), [], name="bo")

        state = agent.invoke({"messages": ["hi"]})

        assert (agent.name, state["messages"][-1].name) == ("bo", "bo")

    def test_its_name_is_on_the_models_own_message(self):
        """
        Callbacks and streams have the message that the model made: that one is named.
        """
        message = langchain_message("hello")

        create_react_agent(Script(message), [], name="bo").invoke({"messages": ["hi"]})

        assert message.name == "bo"

    @pytest.mark.langgraph("F-M4", "F-L2")
    def test_its_drawing_shows_the_loop(self):
        """
        Model, tools and end are nodes, as in LangGraph's drawing.
        """
        drawn = create_react_agent(Script(), [double]).get_graph()

        assert [(e.source, e.target, e.conditional) for e in drawn.edges] == [
            (START, "agent", False),
            ("agent", END, True),
            ("agent", "tools", True),
            ("tools", "agent", False),
        ]

    @pytest.mark.langgraph("F-M4", "F-L2")
    def test_its_drawing_is_langgraphs(self):
        """
        With all its parts too, the agent's drawing is the one that LangGraph makes.
        """

        def hook(state): ...

        agent = create_react_agent(
            Script(), [double], pre_model_hook=hook, post_model_hook=hook, response_format=Answer
        )

        assert agent.get_graph().draw_mermaid(with_styles=False).splitlines() == [
            "graph TD;",
            "\t__start__ --> pre_model_hook;",
            "\tagent --> post_model_hook;",
            "\tpost_model_hook -.-> generate_structured_response;",
            "\tpost_model_hook -.-> pre_model_hook;",
            "\tpost_model_hook -.-> tools;",
            "\tpre_model_hook --> agent;",
            "\ttools --> pre_model_hook;",
            "\tgenerate_structured_response --> __end__;",
        ]

    @pytest.mark.langgraph("F-M4")
    async def test_a_tool_that_ends_the_agent(self):
        """
        After a tool with return_direct the model isn't asked again.
        """

        def say(text: str) -> str:
            return text

        say.return_direct = True
        model = Script(calling(("say", {"text": "bye"})))

        assert texts(await create_react_agent(model, [say]).ainvoke(ASKED))[-1] == "bye"

    @pytest.mark.langgraph("F-M4")
    @pytest.mark.parametrize(("limit", "ends"), [(10, "8"), (2, "Sorry, need more steps")])
    async def test_it_ends_before_the_steps_run_out(self, limit, ends):
        """
        When the calls would take more supersteps than the limit allows, the agent says so.
        """
        model = Script(calling(("double", {"number": 4})), AIMessage("8"))
        agent = create_react_agent(model, [double])

        state = await agent.ainvoke(ASKED, {"recursion_limit": limit})

        assert texts(state)[-1].startswith(ends)

    @pytest.mark.langgraph("F-M4", "F-M7")
    async def test_a_person_answers_one_of_several_calls(self):
        """
        In v2 each call is a task: one that asks keeps no other from being stored and done once.
        """
        ran = []

        def note(text: str) -> str:
            ran.append(text)
            return text

        def buy(what: str) -> str:
            return f"{what}: {interrupt(what)}"

        model = Script(
            calling(("note", {"text": "n"}), ("buy", {"what": "tea"})), AIMessage("done")
        )
        agent = create_react_agent(model, [note, buy], checkpointer=InMemorySaver())

        paused = await agent.ainvoke(ASKED, at())
        state = await agent.ainvoke(Command(resume="yes"), at())

        assert [i.value for i in paused["__interrupt__"]] == ["tea"]
        assert texts(state)[2:] == ["n", "tea: yes", "done"]
        assert ran == ["n"]


class TestStates:
    @pytest.mark.langgraph("F-M4", "F-M2")
    async def test_tools_see_the_programs_own_state(self):
        """
        A state_schema with keys of its own is what injected arguments come from, in v2 too.
        """

        class Mine(AgentState):
            user: str

        def who(user: Annotated[str, InjectedState("user")]) -> str:
            return user

        model = Script(calling(("who", {})), AIMessage("ok"))
        agent = create_react_agent(model, [who], state_schema=Mine)

        assert texts(await agent.ainvoke({**ASKED, "user": "ann"}))[2] == "ann"

    @pytest.mark.langgraph("F-M4")
    async def test_a_pydantic_state(self):
        """
        The pydantic state, made when it is asked for, works as the dict does.
        """
        from actorgraph.prebuilt import AgentStatePydantic

        model = Script(calling(("double", {"number": 4})), AIMessage("8"))
        agent = create_react_agent(model, [double], state_schema=AgentStatePydantic, prompt="p")

        assert texts(await agent.ainvoke(ASKED)) == ["2 x 4?", "", "8", "8"]


BAD: list[tuple[Any, dict[str, Any], str]] = [
    (Script(), {"version": "v3"}, "Invalid version v3"),
    (3, {}, "must be a chat model or a function, got 3"),
    (Script(), {"prompt": 3}, "Got unexpected type for `prompt`"),
    (Script(), {"state_schema": Answer}, "Missing required key"),
]


@pytest.mark.parametrize(("model", "options", "text"), BAD)
def test_bad_arguments_are_refused_at_once(model, options, text):
    """
    Bad arguments are refused when the agent is made, with the way out.
    """
    with pytest.raises(GraphBuildError, match=text):
        create_react_agent(model, [double], **options)


def test_a_models_name_needs_langchain():
    """
    A text such as "openai:gpt-5" is LangChain's; without it the error says what to install.
    """
    with pytest.raises(MissingExtraError, match="pip install langchain"):
        create_react_agent("openai:gpt-5", [double])


@pytest.mark.langgraph("F-M4")
def test_a_model_that_is_bound_must_be_bound_to_these_tools():
    """
    A model bound to other tools would call what isn't there.
    """
    bound = Script()
    bound.kwargs = {"tools": [{"type": "function", "function": {"name": "other"}}]}

    with pytest.raises(GraphBuildError, match=r"Missing tools \['double'\]"):
        create_react_agent(bound, [double])
    bound.kwargs["tools"].append({"name": "double"})
    create_react_agent(bound, ToolNode([double]))


async def test_an_agent_is_a_node_of_a_graph():
    """
    An agent can be a node of another graph, like any compiled graph.
    """
    agent = create_react_agent(Script(AIMessage("ok")), [])
    graph = StateGraph(AgentState).add_node("agent", agent).add_edge(START, "agent").compile()

    assert texts(await graph.ainvoke({"messages": ["hi"]})) == ["hi", "ok"]
