"""Agents and graphs on a thread whose run has left tool calls without answers."""

from collections import Counter
from typing import Annotated, Any

import langchain_core.messages as lc
import pytest

from actorgraph import InMemorySaver, add_messages, interrupt
from actorgraph.errors import GraphBuildError
from actorgraph.messages import AIMessage
from actorgraph.prebuilt import AgentState, create_react_agent
from actorgraph.prebuilt.react import InvalidChatHistoryError
from tests.faults.open_calls import AGENTS, JUDGED, Model, cancel_everywhere, invalid_calls
from tests.prebuilt.scripted import ASKED, Answer, Script, calling, double
from tests.support.graphs import at

AGAIN = {"messages": [("user", "and now?")]}


def fails(number: int) -> int:
    """Never twice a number."""
    raise KeyboardInterrupt


def shown(messages: list[Any]) -> list[Any]:
    """Each answer's call and content, and the content of the others."""
    return [(m.tool_call_id, m.content) if m.type == "tool" else m.content for m in messages]


async def stopped(model: Any, **options: Any) -> Any:
    """An agent with a thread on which a tool stopped the run; another had finished."""
    options = {"tools": [double, fails], "checkpointer": InMemorySaver(), **options}
    agent = create_react_agent(model, **options)
    with pytest.raises(KeyboardInterrupt):
        await agent.ainvoke(ASKED, at())
    return agent


def two_calls() -> AIMessage:
    return calling(("double", {"number": 4}), ("fails", {"number": 5}))


class TestAgent:
    async def test_by_default_the_next_message_is_refused(self):
        """
        Without the option an open call is an error before the model is called, which names the
        option.
        """
        agent = await stopped(Script(calling(("fails", {"number": 5}))))

        with pytest.raises(InvalidChatHistoryError, match='open_calls="answer"'):
            await agent.ainvoke(AGAIN, at())

    async def test_a_call_that_was_stopped_is_cancelled(self):
        """
        The model sees the answer right behind the call, and so does every reader of the state.
        """
        model = Script(calling(("fails", {"number": 5})), AIMessage("well"))
        agent = await stopped(model, open_calls="answer")

        state = await agent.ainvoke(AGAIN, at())

        assert shown(model.given[-1]) == ["2 x 4?", "", ("fails0", "cancelled"), "and now?"]
        assert shown(state["messages"]) == [*shown(model.given[-1]), "well"]
        assert state["messages"][2].status == "error"

    async def test_a_call_that_had_finished_is_not_cancelled(self):
        """
        The stored result of another call of the same message is kept: only the call that did not
        end is cancelled.
        """
        model = Script(two_calls(), AIMessage("well"))

        async def waits(number: int) -> int:
            """Ask a person."""
            return interrupt(number)

        waits.__name__ = "fails"
        saver = InMemorySaver()
        agent = create_react_agent(model, [double, waits], checkpointer=saver, open_calls="answer")
        await agent.ainvoke(ASKED, at())

        await agent.ainvoke(AGAIN, at())

        answers = [("double0", "8"), ("fails1", "cancelled")]
        assert shown(model.given[-1]) == ["2 x 4?", "", *answers, "and now?"]

    @pytest.mark.parametrize("answers", [True, False], ids=["its reducer answers", "it doesn't"])
    async def test_a_schema_of_the_programs_own(self, answers):
        """
        The model sees a valid history with any schema; it is stored if the schema's reducer says
        so.
        """
        reducer = add_messages(open_calls="answer") if answers else add_messages

        class Own(AgentState):
            messages: Annotated[list[Any], reducer]

        model = Script(calling(("fails", {"number": 5})), AIMessage("well"))
        agent = await stopped(model, open_calls="answer", state_schema=Own)

        state = await agent.ainvoke(AGAIN, at())

        assert invalid_calls(model.given[-1]) == 0
        assert invalid_calls(state["messages"]) == (not answers)

    async def test_langchains_messages(self):
        """
        A conversation of LangChain's messages gets LangChain's ToolMessage.
        """
        asked = {"name": "fails", "args": {"number": 5}, "id": "1"}
        model = Script(lc.AIMessage("", tool_calls=[asked]), lc.AIMessage("well"))
        agent = await stopped(model, open_calls="answer")

        await agent.ainvoke({"messages": [lc.HumanMessage("and now?")]}, at())

        assert [type(m) for m in model.given[-1][1:]] == [
            lc.AIMessage,
            lc.ToolMessage,
            lc.HumanMessage,
        ]

    async def test_the_structured_answer_sees_a_valid_history(self):
        """
        The last call for a structured response gets the answered calls too.
        """
        given: list[Any] = []

        class Structured(Script):
            def with_structured_output(self, schema):
                async def answer(messages, config=None):
                    given.extend(messages)
                    return Answer(8)

                return answer

        model = Structured(calling(("fails", {"number": 5})), AIMessage("well"))
        agent = await stopped(model, open_calls="answer", response_format=Answer)

        state = await agent.ainvoke(AGAIN, at())

        assert state["structured_response"] == Answer(8)
        assert invalid_calls(given) == 0

    def test_another_word_is_refused(self):
        """
        An unknown option is an error when the agent is made.
        """
        with pytest.raises(GraphBuildError, match="Unknown open_calls 'drop'"):
            create_react_agent(Script(), [], open_calls="drop")  # type: ignore[arg-type]


@pytest.mark.one_loop
@pytest.mark.parametrize("name", AGENTS)
async def test_cancelled_at_any_await_the_next_message_meets_a_valid_history(name, tmp_path):
    """
    Wherever a run was cancelled, each tool call that the model sees has exactly one answer.
    """
    seen: Counter[str] = await cancel_everywhere(name, "memory", "scope", tmp_path / "db")

    assert {each: seen[each] for each in JUDGED if seen[each]} == {}
    assert seen["open calls met"] > 0


async def test_an_undisturbed_agent_answers_every_call():
    """
    With the option, nothing changes where each tool ends.
    """
    model = Model()
    agent = AGENTS["agent, a task per call"](model, InMemorySaver())

    state = await agent.ainvoke(AGAIN, at())

    assert shown(state["messages"])[2:] == [
        ("quick 1", "quick result"),
        ("slow 1", "slow result"),
        "done",
    ]
