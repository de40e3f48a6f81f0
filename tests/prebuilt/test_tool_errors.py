"""Results of failing tools: an answer for the model, or a failure of the node."""

import pytest

from actorgraph.errors import GraphBuildError
from actorgraph.prebuilt import ToolNode
from tests.prebuilt.chatter import calling


def fails(number: int) -> str:
    raise ValueError(number)


class TestErrors:
    @pytest.mark.langgraph("F-M1")
    @pytest.mark.parametrize("handling", [False, KeyError, (KeyError, TypeError)])
    async def test_a_failure_is_raised(self, handling):
        """
        An unhandled error fails the node as the tool raised it.
        """
        with pytest.raises(ValueError, match="7"):
            await ToolNode([fails], handle_tool_errors=handling).ainvoke(
                [calling(("fails", {"number": 7}), ("fails", {"number": 7}))]
            )

    @pytest.mark.langgraph("F-M1")
    async def test_a_tools_own_failure_is_raised_by_default(self):
        """
        Without a setting only wrong arguments are reported to the model.
        """
        with pytest.raises(ValueError, match="7"):
            await ToolNode([fails]).ainvoke([calling(("fails", {"number": 7}))])

    @pytest.mark.langgraph("F-M1")
    @pytest.mark.parametrize(
        ("handling", "text"),
        [
            (True, "Error: ValueError(7)\n Please fix your mistakes."),
            ("try again", "try again"),
            (ValueError, "Error: ValueError(7)\n Please fix your mistakes."),
            ((KeyError, ValueError), "Error: ValueError(7)\n Please fix your mistakes."),
            (lambda error: f"no: {error}", "no: 7"),
        ],
    )
    async def test_a_failure_is_reported_to_the_model(self, handling, text):
        """
        True, a text, exceptions or a function say what becomes an answer, and which.
        """
        node = ToolNode([fails], handle_tool_errors=handling)

        (answer,) = await node.ainvoke([calling(("fails", {"number": 7}))])

        assert (answer.content, answer.status, answer.name) == (text, "error", "fails")

    @pytest.mark.langgraph("F-M1")
    async def test_a_handler_takes_what_its_parameter_says(self):
        """
        A function handles the exceptions by which its parameter is annotated, and no others.
        """

        def only_keys(error: KeyError | TypeError) -> str:
            return "handled"

        with pytest.raises(ValueError, match="7"):
            await ToolNode([fails], handle_tool_errors=only_keys).ainvoke(
                [calling(("fails", {"number": 7}))]
            )

    def test_a_handler_of_something_else_is_refused(self):
        """
        A parameter that isn't an exception is refused when the node is made.
        """

        def wrong(error: int) -> str:
            return ""

        with pytest.raises(GraphBuildError, match="must take an exception"):
            ToolNode([fails], handle_tool_errors=wrong)
