"""Forms of a graph's input, made of its input schema; messages are one text. Pure."""

from collections.abc import Mapping
from typing import Any, cast

from actorgraph.graph import CompiledStateGraph
from actorgraph.messages import add_messages
from actorgraph.studio.question_forms import NEW, Form, GivenTexts, answer_of, form_of

MESSAGES = "messages"
"""The key of a list of messages by which a graph is known to take them, without their reducer."""


def input_schema(graph: CompiledStateGraph) -> Mapping[str, Any] | None:
    """Return the JSON schema of a graph's input; None if its type has none."""
    try:
        found = graph.get_input_jsonschema()
    except (TypeError, ValueError):
        return None
    return found if found.get("properties") or found.get("$ref") else None


def message_key(graph: CompiledStateGraph) -> str:
    """Return the key of a graph's input that takes messages; "" without one."""
    schema = input_schema(graph)
    properties = {} if schema is None else schema.get("properties") or {}
    known = [MESSAGES, *(name for name in properties if name != MESSAGES)]
    return next((name for name in known if _takes_messages(graph, name, properties)), "")


def _takes_messages(graph: CompiledStateGraph, name: str, properties: Mapping[str, Any]) -> bool:
    operator = getattr(graph.channels.get(name), "operator", None)
    folds = getattr(operator, "func", operator) is add_messages
    spec = properties.get(name)
    is_list = isinstance(spec, Mapping) and cast("Mapping[str, Any]", spec).get("type") == "array"
    return name in properties and (folds or (name == MESSAGES and is_list))


def input_form(graph: CompiledStateGraph, texts: GivenTexts = NEW) -> Form:
    """Make the form of a graph's input: a text for its messages, other keys by their schema."""
    return form_of(_shown_schema(graph), texts)


def _shown_schema(graph: CompiledStateGraph) -> Mapping[str, Any] | None:
    schema, key = input_schema(graph), message_key(graph)
    if schema is None or not key:
        return schema
    said = {"type": "string", "format": "message", "title": "Message"}
    properties = cast("Mapping[str, Any]", schema["properties"])
    return {
        **schema,
        "properties": {key: said, **{k: v for k, v in properties.items() if k != key}},
    }


def input_of(graph: CompiledStateGraph, given: Mapping[str, str]) -> Any:
    """Read a graph's input from the texts of its form.

    Raises:
        FormError: they don't fit.
    """
    key, found = message_key(graph), answer_of(input_form(graph, GivenTexts(given)))
    if key and isinstance(found, dict) and key in found:
        return {**cast("dict[str, Any]", found), key: [user_message(str(found[key]))]}
    return found


def user_message(text: str) -> dict[str, str]:
    """Return a person's message as an input."""
    return {"role": "user", "content": text}
