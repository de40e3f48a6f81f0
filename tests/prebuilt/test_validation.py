"""ValidationNode: a model's calls are data, checked and sent back."""

import pydantic
import pytest

from actorgraph.errors import GraphBuildError, InvalidUpdateError
from actorgraph.prebuilt import HumanInterrupt, HumanResponse, ValidationNode
from tests.prebuilt.chatter import HumanMessage, calling


class Pick(pydantic.BaseModel):
    number: int


def choose(letter: str, times: int = 1) -> None: ...


class TestValidation:
    @pytest.mark.langgraph("F-M5")
    async def test_arguments_that_fit_come_back(self):
        """
        Each call is answered with its arguments as JSON, in the types of the schema.
        """
        node = ValidationNode([Pick, choose])
        calls = calling(("Pick", {"number": "3"}), ("choose", {"letter": "a"}))

        update = await node.ainvoke({"messages": [calls]})

        assert [m.content for m in update["messages"]] == ['{"number":3}', '{"letter":"a"}']

    def test_it_can_be_called_without_a_loop(self):
        """
        `invoke` is `ainvoke` for code that has no event loop; a list is answered with a list.
        """
        (answer,) = ValidationNode([Pick]).invoke([calling(("Pick", {"number": 3}))])

        assert answer.content == '{"number":3}'

    @pytest.mark.langgraph("F-M5")
    @pytest.mark.parametrize("name", ["Pick", "choose"])
    async def test_wrong_calls_are_answered_with_errors(self, name):
        """
        The answer says what is wrong, and is marked as an error for a route to see.
        """
        (answer,) = await ValidationNode([Pick, choose]).ainvoke([calling((name, {}))])

        assert "Respond after fixing all validation errors." in answer.content
        assert answer.additional_kwargs == {"is_error": True}

    async def test_the_text_may_be_the_programs(self):
        """
        format_error makes the text of the error, the call and the schema.
        """
        node = ValidationNode(
            [Pick], format_error=lambda e, call, s: f"{call['name']} {s.__name__}"
        )

        (answer,) = await node.ainvoke([calling(("Pick", {}))])

        assert answer.content == "Pick Pick"

    @pytest.mark.parametrize(
        ("given", "text"),
        [
            ([], "No message found"),
            ([HumanMessage()], "Last message is not an AIMessage"),
            ([calling(("other", {}))], "calls 'other', for which 'validation' has no schema"),
        ],
    )
    async def test_unknown_schemas_are_refused(self, given, text):
        """
        Without a model's message, or for a name without schema, there is nothing to answer.
        """
        with pytest.raises(InvalidUpdateError, match=text):
            await ValidationNode([Pick]).ainvoke(given)

    def test_a_tool_needs_a_pydantic_schema(self):
        """
        A tool object without one can't be checked, which is seen when the node is made.
        """

        class Tool:
            name = "t"

            def invoke(self): ...

        with pytest.raises(GraphBuildError, match="'t' has no pydantic schema"):
            ValidationNode([Tool()])


@pytest.mark.langgraph("F-M5")
def test_questions_about_calls_have_a_form():
    """
    Programs that ask about a call and answer agree on the same keys as in LangGraph.
    """
    assert HumanInterrupt.__required_keys__ == {"action_request", "config", "description"}
    assert HumanResponse.__required_keys__ == {"type", "args"}
