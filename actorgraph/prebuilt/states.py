"""create_react_agent: a model that calls tools until it has its answer; its states and routes."""

from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any, NotRequired, TypedDict, cast, get_type_hints

from actorgraph.errors import GraphBuildError
from actorgraph.messages import add_messages
from actorgraph.plan.managed import RemainingSteps


class AgentState(TypedDict):
    """The state of an agent: its conversation."""

    messages: Annotated[Sequence[Any], add_messages]
    remaining_steps: NotRequired[RemainingSteps]


class AgentStateWithStructuredResponse(AgentState):
    """The state of an agent that ends with a structured response."""

    structured_response: Any


def pydantic_state(name: str) -> Any:
    """Make `AgentStatePydantic` or `AgentStateWithStructuredResponsePydantic`.

    On first access, so that pydantic is imported only by programs that use them.
    """
    create_model = import_module("pydantic").create_model
    plain = create_model(
        "AgentStatePydantic",
        __doc__="The state of an agent, as a pydantic model.",
        messages=(Annotated[list[Any], add_messages], ...),
        remaining_steps=(RemainingSteps, 25),
    )
    if name == "AgentStatePydantic":
        return plain
    return create_model(
        name,
        __base__=plain,
        __doc__="The state of an agent that ends with a structured response, as a pydantic model.",
        structured_response=(Any, None),
    )


def state_for(given: Any, response_format: Any) -> Any:
    """Return the schema of an agent's state.

    Args:
        given: the program's schema; None for `AgentState`.
        response_format: if given, the state has a `structured_response` of that type.
    Raises:
        GraphBuildError: the program's schema lacks a key that the agent needs.
    """
    if given is None:
        return AgentState if response_format is None else _structured_state(response_format)
    needed = {"messages", "remaining_steps"}
    if response_format is not None:
        needed.add("structured_response")
    if missing := needed - get_type_hints(given).keys():
        raise GraphBuildError(
            f"Missing required key(s) {sorted(missing)} in state_schema",
            do="add them, or derive the schema from actorgraph.prebuilt.AgentState",
        )
    return given


def _structured_state(response_format: Any) -> Any:
    """Make a schema that names the type of the response, so that savers may store it."""
    schema: Any = response_format[1] if isinstance(response_format, tuple) else response_format
    kind = schema if isinstance(schema, type) else dict[str, Any]
    hints = get_type_hints(AgentState, include_extras=True)
    return _typed_dict("AgentState", {**hints, "structured_response": kind})


def input_for(state: Any) -> Any:
    """Return the input schema of the model's node after a hook: also `llm_input_messages`."""
    if hasattr(state, "model_fields"):
        create_model = import_module("pydantic").create_model
        return create_model("ModelInput", __base__=state, llm_input_messages=(Any, None))
    hints = get_type_hints(state, include_extras=True)
    return _typed_dict("ModelInput", {**hints, "llm_input_messages": list[Any]})


def _typed_dict(name: str, fields: dict[str, Any]) -> Any:
    make = cast("Any", TypedDict)
    return make(name, fields, total=False)


def value_of(state: Any, key: str) -> Any:
    """Return a state's value of a key; None if it has none."""
    if isinstance(state, dict):
        return cast("dict[str, Any]", state).get(key)
    return getattr(state, key, None)


def with_messages(state: Any, messages: Sequence[Any]) -> Any:
    """Copy a state with other messages."""
    if isinstance(state, dict):
        return {**cast("dict[str, Any]", state), "messages": list(messages)}
    return state.model_copy(update={"messages": list(messages)})
