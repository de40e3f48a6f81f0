"""ValidationNode: checks a model's tool calls against schemas, without running anything."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from actorgraph.errors import GraphBuildError, InvalidUpdateError
from actorgraph.internals import block_on, check_call_ids
from actorgraph.prebuilt.chat_messages import (
    kind_of,
    messages_of,
    replace_fields,
    tool_message,
)
from actorgraph.prebuilt.tools import ForeignTool, tool_of

FormatError = Callable[[BaseException, dict[str, Any], Any], str]


class ValidationNode:
    """A node that answers each tool call of the last message with its arguments, or with an error.

    For data extraction: the arguments are the data. An answer to invalid arguments has
    `additional_kwargs={"is_error": True}`, so that a route can call the model again.

    Args:
        schemas: pydantic models, functions, or LangChain tools with a pydantic schema.
        format_error: (error, call, schema) -> text of the answer to invalid arguments.
        name: the node's name.
        tags: for tracing.
    Raises:
        GraphBuildError: a schema is none of these.
    """

    def __init__(
        self,
        schemas: Sequence[Any],
        *,
        format_error: FormatError | None = None,
        name: str = "validation",
        tags: list[str] | None = None,
    ) -> None:
        self.name = name
        self.tags = tags
        self._format = format_error or _default_text
        self.schemas_by_name: dict[str, Any] = dict(map(_named, schemas))

    async def __call__(self, state: Any) -> Any:
        """Check the calls; see `ainvoke`."""
        return await self.ainvoke(state)

    def invoke(self, input: Any, config: Mapping[str, Any] | None = None) -> Any:
        """Check the calls; the sync form of `ainvoke`."""
        return block_on("ainvoke", lambda: self.ainvoke(input, config))

    async def ainvoke(self, input: Any, config: Mapping[str, Any] | None = None) -> Any:
        """Check the tool calls of the last message.

        Returns: ToolMessages, as a list or a state like the input.
        Raises:
            InvalidUpdateError: the last message is not a model's, calls an unknown schema, or has
                a call without an id.
        """
        messages = messages_of(input, "messages")
        if not messages or kind_of(messages[-1]) != "ai":
            raise InvalidUpdateError(
                "Last message is not an AIMessage" if messages else "No message found in input",
                do=f"run {self.name!r} right after the model",
            )
        check_call_ids(messages[-1].tool_calls, messages[-1])
        outputs = [self._one(call, messages[-1]) for call in messages[-1].tool_calls]
        return outputs if isinstance(input, list) else {"messages": outputs}

    def _one(self, call: dict[str, Any], like: Any) -> Any:
        schema = self.schemas_by_name.get(call["name"])
        if schema is None:
            raise InvalidUpdateError(
                f"the model calls {call['name']!r}, for which {self.name!r} has no schema",
                do="pass its schema too, or bind only those to the model that you pass here",
            )
        try:
            if hasattr(schema, "model_validate"):
                content = schema.model_validate(call["args"]).model_dump_json()
            else:
                content = msgspec.json.encode(schema.validate(call["args"])).decode()
        except ValueError as error:
            answer = tool_message(like, call, self._format(error, call, schema))
            return replace_fields(answer, additional_kwargs={"is_error": True})
        return tool_message(like, call, content)


def _named(schema: Any) -> tuple[str, Any]:
    """Return the name by which a model calls a schema, and the object that checks arguments."""
    if isinstance(schema, type) and hasattr(schema, "model_validate"):
        return schema.__name__, schema
    tool = tool_of(schema)
    if not isinstance(tool, ForeignTool):
        return tool.name, tool
    inner = getattr(tool.given, "args_schema", None)
    if not hasattr(inner, "model_validate"):
        raise GraphBuildError(
            f"tool {tool.name!r} has no pydantic schema: {inner!r}",
            do="pass a tool with a pydantic args_schema, a pydantic model, or a function",
        )
    return tool.name, inner


def _default_text(error: BaseException, call: dict[str, Any], schema: Any) -> str:
    del call, schema
    return f"{error!r}\n\nRespond after fixing all validation errors."
