"""The parts that an agent may have: prompts, hooks, answers in a given form."""

import pytest

from actorgraph import InMemorySaver
from actorgraph.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from actorgraph.prebuilt import InvalidChatHistoryError, create_react_agent
from actorgraph.stores import InMemoryStore
from tests.prebuilt.scripted import ASKED, Answer, Script, calling, double, texts
from tests.support.graphs import at


class TestPrompt:
    @pytest.mark.langgraph("F-M4")
    @pytest.mark.parametrize(
        "prompt",
        [
            "be brief",
            SystemMessage("be brief"),
            lambda s: [SystemMessage("be brief"), *s["messages"]],
        ],
    )
    async def test_a_prompt_comes_before_the_conversation(self, prompt):
        """
        A text, a message or a function makes the model's input; the state stays as it is.
        """
        model = Script(AIMessage("ok"))

        state = await create_react_agent(model, [], prompt=prompt).ainvoke({"messages": ["hi"]})

        assert [(m.type, m.content) for m in model.given[0]] == [
            ("system", "be brief"),
            ("human", "hi"),
        ]
        assert texts(state) == ["hi", "ok"]

    @pytest.mark.langgraph("F-M4")
    async def test_a_conversation_must_be_whole(self):
        """
        A call without its answer is refused before a model is asked.
        """
        agent = create_react_agent(Script(), [double])

        with pytest.raises(
            InvalidChatHistoryError, match="do not have a corresponding ToolMessage"
        ):
            await agent.ainvoke({"messages": [calling(("double", {})), HumanMessage("well?")]})


class TestHooks:
    @pytest.mark.langgraph("F-M4")
    async def test_a_hook_before_chooses_what_the_model_sees(self):
        """
        `llm_input_messages` is seen instead of the conversation, which stays.
        """

        async def trim(state):
            return {"llm_input_messages": state["messages"][-1:]}

        model = Script(AIMessage("1"))
        agent = create_react_agent(model, [double], pre_model_hook=trim)

        state = await agent.ainvoke({"messages": ["old", "new"]})

        assert [m.content for m in model.given[0]] == ["new"]
        assert texts(state) == ["old", "new", "1"]
        assert "llm_input_messages" not in state

    @pytest.mark.langgraph("F-M4")
    async def test_a_hook_after_may_answer_calls(self):
        """
        Calls that the hook has answered don't run; the others do.
        """

        async def guard(state):
            calls = getattr(state["messages"][-1], "tool_calls", [])
            refused = [c for c in calls if c["args"]["number"] > 4]
            return {"messages": [ToolMessage("too big", tool_call_id=c["id"]) for c in refused]}

        model = Script(
            calling(("double", {"number": 4}), ("double", {"number": 5})),
            calling(("double", {"number": 9}), id="second"),
            AIMessage("done"),
        )
        model.answers[1].tool_calls[0]["id"] = "x"
        agent = create_react_agent(model, [double], post_model_hook=guard)

        state = await agent.ainvoke(ASKED)

        assert texts(state)[1:] == ["", "too big", "8", "", "too big", "done"]


class TestStructuredAnswer:
    @pytest.mark.langgraph("F-M4")
    async def test_a_model_with_structured_output_is_asked_for_it(self):
        """
        At the end the conversation becomes an answer in the schema, with its own system text.
        """

        class Structured(Script):
            def with_structured_output(self, schema):
                self.schema = schema
                return Script(Answer(8))

        model = Structured(AIMessage("it is 8"))
        agent = create_react_agent(
            model, [double], response_format=("as a number", Answer), checkpointer=InMemorySaver()
        )

        state = await agent.ainvoke(ASKED, at())

        assert state["structured_response"] == Answer(8)
        assert model.schema is Answer
        assert (await agent.aget_state(at())).values["structured_response"] == Answer(8)

    @pytest.mark.langgraph("F-M4")
    @pytest.mark.parametrize("schema", [Answer, {"type": "object"}])
    async def test_another_models_text_is_read_as_json(self, schema):
        """
        A model without structured output is asked once more, and its JSON must fit.
        """
        model = Script(AIMessage("it is 8"), AIMessage('{"number": 8}'))

        state = await create_react_agent(model, [], response_format=schema).ainvoke(ASKED)

        made = state["structured_response"]
        assert made == (Answer(8) if schema is Answer else {"number": 8})


class TestWhatAPromptIsGiven:
    @pytest.mark.langgraph("F-M4")
    async def test_a_prompt_has_a_nodes_other_parameters(self):
        """
        A function that makes the model's input gets the config and the store, as nodes do.
        """

        def prompt(state, config, *, store):
            text = f"{config['configurable']['user']}, {type(store).__name__}"
            return [SystemMessage(text), *state["messages"]]

        model = Script(AIMessage("ok"))
        agent = create_react_agent(model, [], prompt=prompt, store=InMemoryStore())

        await agent.ainvoke({"messages": ["hi"]}, {"configurable": {"user": "Ann"}})

        assert model.given[0][0].content == "Ann, InMemoryStore"
