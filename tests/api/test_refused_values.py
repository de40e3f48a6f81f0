"""Values that a schema refuses, and updates that are invalid: one class of errors, a ValueError."""

from dataclasses import dataclass

import msgspec
import pytest
from pydantic import BaseModel, ValidationError

from actorgraph import START, InvalidUpdateError, StateGraph, UnknownTargetError, add_messages
from actorgraph.errors import MissingNodeError
from actorgraph.messages import RemoveMessage


class Model(BaseModel):
    x: str


@dataclass
class Data:
    x: str

    def __post_init__(self) -> None:
        """Refuse what is not text."""
        if not isinstance(self.x, str):
            raise TypeError(self.x)


class Struct(msgspec.Struct):
    x: str

    def __post_init__(self) -> None:
        """Refuse what is not text."""
        if not isinstance(self.x, str):
            raise ValueError(self.x)  # noqa: TRY004 - a kind of error that classes raise


@pytest.mark.parametrize(
    ("schema", "cause"), [(Model, ValidationError), (Data, TypeError), (Struct, ValueError)]
)
class TestSchemas:
    async def test_a_refused_input_is_a_value_error(self, schema, cause):
        """
        Every kind of schema raises one class, with the node's name; the schema's own error is the
        direct cause.
        """
        graph = StateGraph(schema).add_node("node", lambda state: {}).add_edge(START, "node")

        with pytest.raises(ValueError, match="node 'node'") as refused:
            await graph.compile().ainvoke({"x": [1]})

        assert type(refused.value) is InvalidUpdateError
        assert type(refused.value.__cause__) is cause

    async def test_so_is_what_a_path_would_get(self, schema, cause):
        """
        A conditional edge whose state is refused raises the same.
        """
        builder = StateGraph(schema).add_node("node", lambda state: {"x": [1]})
        builder.add_edge(START, "node").add_conditional_edges("node", lambda state: "node")

        with pytest.raises(ValueError, match="can't be made into") as refused:
            await builder.compile().ainvoke({"x": "text"})

        assert type(refused.value.__cause__) is cause


class TestOtherUpdates:
    def test_invalid_messages_are_value_errors(self):
        """
        A message that isn't there can't be removed.
        """
        with pytest.raises(ValueError, match="ID that doesn't exist"):
            add_messages([], [RemoveMessage(id="2")])

    @pytest.mark.parametrize("kind", [UnknownTargetError, MissingNodeError])
    def test_so_are_the_special_kinds(self, kind):
        """
        A caller may catch all of them as ValueError.
        """
        assert issubclass(kind, ValueError)
