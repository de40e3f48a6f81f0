"""Forms of questions: fields made of a JSON schema or of an example, and their values read. Pure.

A question (`interrupt(value)`) may say which answer it expects by a JSON schema under one of the
keys of `SCHEMA_KEYS`; any other question gets one field for JSON or text.
"""

import json
from collections.abc import Mapping
from math import isfinite
from typing import Any, Literal, cast

import msgspec

SCHEMA_KEYS = ("response_schema", "schema", "json_schema")
FIELDS_MAX = 50
ANSWER = "answer"
"""The name of the only field of an answer without a schema."""

Widget = Literal["text", "area", "number", "integer", "checkbox", "select", "json"]


class Field(msgspec.Struct, frozen=True):
    """One field of a form.

    Attributes:
        name: of the value in the answer; `ANSWER` if the answer is the value itself.
        choices: of a "select", as JSON texts.
        value: the text that the field begins with.
    """

    name: str
    label: str
    widget: Widget
    required: bool = False
    choices: tuple[str, ...] = ()
    value: str = ""
    help: str = ""


class Form(msgspec.Struct, frozen=True):
    """The form of one question.

    Attributes:
        whole: whether the only field is the answer itself, not a key of it.
    """

    fields: tuple[Field, ...]
    whole: bool = False


class FormError(ValueError):
    """A field's text doesn't fit; the text names the field."""


def form_of(question: Any) -> Form:
    """Make the form of a question's value."""
    schema = _schema_of(question)
    if schema is None:
        return Form((Field(ANSWER, "Answer", "area", help="text, or JSON"),), whole=True)
    properties = schema.get("properties")
    if schema.get("type") == "object" and isinstance(properties, Mapping) and properties:
        said = schema.get("required")
        required = cast("list[Any]", said) if isinstance(said, list | tuple) else []
        fields = [
            _field(str(name), _resolved(spec, schema), name in required)
            for name, spec in list(cast("Mapping[str, Any]", properties).items())[:FIELDS_MAX]
        ]
        return Form(tuple(fields))
    return Form((_field(ANSWER, _resolved(schema, schema), required=True),), whole=True)


def _resolved(given: Any, schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema of a value: a reference followed, and of `T | None` that of T."""
    spec: dict[str, Any] = {**given} if isinstance(given, Mapping) else {}
    for key in ("anyOf", "oneOf"):
        found = spec.get(key)
        if isinstance(found, list | tuple):
            others = [one for one in cast("list[Any]", found) if one != {"type": "null"}]
            if len(others) == 1 and isinstance(others[0], Mapping):
                spec = {**cast("Mapping[str, Any]", others[0]), **spec}
    kinds = spec.get("type")
    if isinstance(kinds, list | tuple):
        names = [one for one in cast("list[Any]", kinds) if one != "null"]
        spec["type"] = names[0] if len(names) == 1 else None
    named = str(spec.get("$ref") or "").rpartition("/")
    definitions = schema.get(named[0].removeprefix("#/"))
    if isinstance(definitions, Mapping):
        there = cast("Mapping[str, Any]", definitions).get(named[2])
        spec = {**there, **spec} if isinstance(there, Mapping) else spec
    return spec


def without_schema(question: Any) -> Any:
    """Return a question's value without the schema of its answer, which its form shows."""
    if _schema_of(question) is None:
        return question
    given = cast("Mapping[str, Any]", question)
    return {key: value for key, value in given.items() if key not in SCHEMA_KEYS}


def _schema_of(question: Any) -> Mapping[str, Any] | None:
    if not isinstance(question, Mapping):
        return None
    for key in SCHEMA_KEYS:
        found = cast("Mapping[str, Any]", question).get(key)
        if isinstance(found, Mapping):
            return cast("Mapping[str, Any]", found)
    return None


def _field(name: str, spec: Mapping[str, Any], required: bool) -> Field:
    label = str(spec.get("title") or name)
    default = spec.get("default")
    text = "" if default is None else default if isinstance(default, str) else json.dumps(default)
    more = str(spec.get("description") or "")
    choices = spec.get("enum")
    if isinstance(choices, list | tuple) and choices:
        texts = tuple(json.dumps(choice) for choice in cast("list[Any]", choices))
        start = json.dumps(default) if default in choices else ""
        return Field(name, label, "select", required, texts, start, more)
    return Field(name, label, _widget(spec), required, (), text, more)


def _widget(spec: Mapping[str, Any]) -> Widget:
    kind = spec.get("type")
    if kind == "boolean":
        return "checkbox"
    if kind == "integer":
        return "integer"
    if kind == "number":
        return "number"
    if kind == "string":
        most = spec.get("maxLength")
        return "area" if isinstance(most, int) and most > 200 else "text"
    return "json"


def answer_of(form: Form, given: Mapping[str, str]) -> Any:
    """Read the answer from the texts of a form.

    Raises:
        FormError: a text doesn't fit its field.
    """
    if form.whole and form.fields[0].widget == "area":
        return json_or_text(given.get(ANSWER, ""))
    found: dict[str, Any] = {}
    for field in form.fields:
        text = given.get(field.name, "")
        if field.widget == "checkbox":
            found[field.name] = text not in ("", "false")
        elif text == "":
            if field.required:
                raise FormError(f"{field.label!r} is required")
        else:
            found[field.name] = _value(field, text)
    return found.get(ANSWER) if form.whole else found


def _value(field: Field, text: str) -> Any:
    if field.widget in ("text", "area"):
        return text
    if field.widget == "select" and text not in field.choices:
        raise FormError(f"{field.label!r} must be one of {', '.join(field.choices)}")
    try:
        if field.widget == "integer":
            return int(text)
        if field.widget == "number":
            found = float(text)
            if not isfinite(found):
                raise ValueError(f"got {text!r}")
            return found
        return json.loads(text)
    except ValueError as error:
        kind = {"integer": "a whole number", "number": "a number"}.get(field.widget, "JSON")
        raise FormError(f"{field.label!r} must be {kind}: {error}") from error


def json_or_text(text: str) -> Any:
    """Read JSON; anything that is not JSON is text."""
    try:
        return json.loads(text)
    except ValueError:
        return text
