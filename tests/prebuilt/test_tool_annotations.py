"""Injected parameters of tools, in every form of an annotation; no model sees or sets them."""

from typing import Annotated, Any, NewType, Optional

import pytest
import typing_extensions as te
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, InjectedToolArg
from langchain_core.tools import tool as langchain_tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import BaseModel, Field

from actorgraph import START, StateGraph
from actorgraph.errors import GraphBuildError
from actorgraph.messages import MessagesState
from actorgraph.prebuilt import (
    InjectedState,
    InjectedStore,
    InjectedToolCallId,
    ToolNode,
    ToolRuntime,
    create_react_agent,
)
from actorgraph.prebuilt.completion_format import tool_json
from actorgraph.prebuilt.shown_tools import shown_tool
from actorgraph.stores import InMemoryStore
from tests.prebuilt.scripted import AIMessage, Script, calling, texts

Settings = RunnableConfig


class Mine(InjectedToolArg):
    """A mark of a program's own: the parameter is hidden, and nothing fills it in."""


class State(MessagesState):
    user: str


User = te.TypeAliasType("User", Annotated[str, InjectedState("user")])
MARKED = {
    "last": Annotated[str, InjectedState("user")],
    "first": Annotated[str, InjectedState("user"), te.Doc("x"), Field(description="x")],
    "nested": Annotated[Annotated[str, InjectedState("user")], "x"],
    "an alias": User,
    "an alias in Annotated": Annotated[User, "x"],
    "a NewType": NewType("NewUser", Annotated[str, InjectedState("user")]),
    "Optional": Optional[Annotated[str, InjectedState("user")]],  # noqa: UP045 - a form of its own
    "around Optional": Annotated[str | None, InjectedState("user"), "x"],
    "an alias or None": User | None,
    "two marks": Annotated[str, InjectedToolArg(), InjectedState("user")],
    "text": "Annotated[str, InjectedState('user')]",
    "text with an unknown type": "Annotated[Receipt, InjectedState('user')]",
    "text with an unknown mark": "Annotated[str, Receipt(1), InjectedState('user')]",
    "text with an unknown member": "Receipt | Annotated[str, InjectedState('user')]",
    "text of an alias": "User | None",
}
OTHERS = {
    "the state": (Annotated[dict[str, Any] | None, InjectedState, "x"], "ada"),
    "the store": (Optional[Annotated[Any, InjectedStore()]], "InMemoryStore"),  # noqa: UP045
    "the call's id": (Annotated[str, InjectedToolCallId] | None, "pay0"),
    "the runtime": (ToolRuntime[Any, Any], "ada"),
    "a runtime or None": (ToolRuntime | None, "ada"),
    "the runtime by a text": ("ToolRuntime[Receipt, Receipt]", "ada"),
    "the config": (RunnableConfig, "configurable"),
    "the config or None": (Settings | None, "configurable"),
    "the config by a text": ("Annotated[Settings, Receipt]", "configurable"),
    "a mark of a program's own": (Annotated[str, Mine] | None, "nothing"),
}


def function_with(annotation: Any) -> Any:
    def pay(amount: int, given=None) -> str:
        """Pay."""
        found: Any = given
        if isinstance(found, ToolRuntime):
            found = found.state
        if isinstance(found, dict):
            found = (
                found["user"] if "user" in found else next(k for k in found if k == "configurable")
            )
        elif found is not None and not isinstance(found, str):
            found = type(found).__name__
        return f"{found or 'nothing'} pays {amount}"

    pay.__annotations__ = {"amount": "int", "given": annotation, "return": "Receipt"}
    return pay


def graph_of(tool: Any) -> Any:
    builder = StateGraph(State).add_node("tools", ToolNode([tool])).add_edge(START, "tools")
    return builder.compile(store=InMemoryStore())


async def answer(tool: Any, name: str = "pay", **more: Any) -> str:
    call = calling((name, {"amount": 1, **more}))
    state = await graph_of(tool).ainvoke({"messages": [call], "user": "ada"})
    return texts(state)[-1]


class TestForms:
    @pytest.mark.parametrize("form", MARKED.values(), ids=MARKED)
    async def test_a_mark_is_found_in_every_form(self, form):
        """
        A value that the model gives never takes the place of the injected one.
        """
        pay = function_with(form)

        assert await answer(pay) == await answer(pay, given="mallory") == "ada pays 1"

    @pytest.mark.parametrize(("form", "wanted"), OTHERS.values(), ids=OTHERS)
    async def test_every_kind_of_injection_is_found(self, form, wanted):
        """
        State, store, id, runtime and config are filled in; a mark of one's own only hides.
        """
        pay = function_with(form)

        assert await answer(pay) == await answer(pay, given="mallory") == f"{wanted} pays 1"

    @pytest.mark.parametrize("form", [*MARKED.values(), *(form for form, _ in OTHERS.values())])
    def test_no_model_sees_an_injected_parameter(self, form):
        """
        Not in the tool's schema, nor in what LangChain makes of what is bound to a model.
        """
        pay = function_with(form)
        script = Script(AIMessage("ok"))
        create_react_agent(script, [pay], state_schema=None)

        shown = convert_to_openai_tool(script.tools[0])["function"]
        for made in (shown, tool_json(pay)["function"]):
            assert list(made["parameters"]["properties"]) == ["amount"]
            assert made["parameters"]["required"] == ["amount"]
            assert (made["name"], made["description"]) == ("pay", "Pay.")

    def test_a_function_without_injections_is_bound_itself(self):
        """
        A model is shown a function as it is if it hides nothing.
        """

        def pay(amount: int) -> str: ...

        assert shown_tool(pay) is pay


class TestRefused:
    @pytest.mark.parametrize(
        ("annotation", "unknown"),
        [
            ("Receipt", "Receipt"),
            ("Annotated[str, Receipt('user')]", "Receipt"),
            ("list[receipts.Receipt] | None", "receipts.Receipt"),
            (list["Receipt"], "Receipt"),  # noqa: F821 - that is the point
        ],
    )
    def test_a_parameter_that_may_be_injected_or_not(self, annotation, unknown):
        """
        The error names the tool, the parameter, the name, and what to do, when the tool is made.
        """
        with pytest.raises(
            GraphBuildError, match="tool 'pay' has the parameter 'given'"
        ) as refused:
            ToolNode([function_with(annotation)])

        assert unknown.partition(".")[0] in refused.value.what
        assert f"import {unknown} at run time" in refused.value.do

    def test_a_parameter_that_no_model_can_set_is_not(self):
        """
        The result, the runtime, and what takes any argument are not the model's.
        """

        def pay(amount: int, runtime: "Receipt", *more: "Receipt", **rest: "Receipt"):  # noqa: F821
            """Pay."""

        properties = ToolNode([pay]).tools_by_name["pay"].args_schema["properties"]

        assert list(properties) == ["amount"]

    def test_a_handler_of_unknown_errors(self):
        """
        It would handle every error.
        """

        def handle(error: "ValueError | Receipt") -> str: ...  # noqa: F821

        with pytest.raises(GraphBuildError, match="'Receipt' is not defined"):
            ToolNode([function_with(User)], handle_tool_errors=handle)


class Given(BaseModel):
    amount: int
    given: User


class Plain(BaseModel):
    amount: int
    given: str = ""


class Own(BaseTool):
    name: str = "own"
    description: str = "Pay."

    def _run(self, amount: int, given: Annotated[str, InjectedState("user")]) -> str:
        return f"{given} pays {amount}"


def made_by_langchain() -> list[Any]:
    def pay(amount: int, given: Annotated[str, InjectedState("user"), "x"], c: RunnableConfig):
        """Pay."""
        return f"{given} pays {amount}{'' if c['configurable'] else '?'}"

    def later(amount: int, given: User | None = None):
        """Pay."""
        return f"{given} pays {amount}"

    def by_schema(amount, given):
        """Pay."""
        return f"{given} pays {amount}"

    def by_function(amount: int, given: "Annotated[str, InjectedState('user')]"):
        """Pay."""
        return f"{given} pays {amount}"

    return [
        *(langchain_tool(pay), langchain_tool(later), Own()),
        *(
            langchain_tool(args_schema=Given)(by_schema),
            langchain_tool(args_schema=Plain)(by_function),
        ),
    ]


class TestToolsOfLangChain:
    @pytest.mark.parametrize("place", range(5))
    async def test_marks_are_found_in_schemas_functions_and_methods(self, place):
        """
        In either of them, in every form; the model's value never counts, and it isn't shown one.
        """
        tool = made_by_langchain()[place]

        assert await answer(tool, tool.name) == "ada pays 1"
        assert await answer(tool, tool.name, given="mallory") == "ada pays 1"
        for made in (convert_to_openai_tool(shown_tool(tool)), tool_json(tool)):
            assert list(made["function"]["parameters"]["properties"]) == ["amount"]

    async def test_a_runtime_or_none_is_hidden_from_the_model(self):
        """
        LangChain can't describe it: the schema that a model gets is made without it.
        """

        @langchain_tool
        def look(question: str, runtime: ToolRuntime | None = None) -> str:
            """Look."""
            return f"{question} {runtime.state['messages'][0].content}"

        shown = convert_to_openai_tool(shown_tool(look))["function"]
        assert list(shown["parameters"]["properties"]) == ["question"]
        model = Script(calling(("look", {"question": "who"})), AIMessage("end"))
        agent = create_react_agent(model, [look])
        found = await agent.ainvoke({"messages": [("user", "ada")]})
        assert "who ada" in texts(found)
