"""Forms of values: fields made of a JSON schema, and the value read from their texts. Pure.

A question (`interrupt(value)`) may say which answer it expects by `response_schema=`, or by a JSON
schema under one of the keys of `SCHEMA_KEYS` of its value. Objects become groups of fields, lists
become rows; what no field fits gets a box for JSON, as does any question without a schema.

The name of a field is its path in the value, as in `address/street` or `items/0/name`; "~" and "/"
in keys are written as in a JSON pointer (RFC 6901).
"""

import json
from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any, Literal, cast

import msgspec

from actorgraph.internals import misfit

SCHEMA_KEYS = ("response_schema", "schema", "json_schema")
FIELDS_MAX = 100
"""Fields of an object above which it gets a box for JSON."""
ROWS_MAX = 200
"""Rows of a list, of a form that was sent."""
DEPTH_MAX = 5
"""Levels of groups and rows; deeper values get a box for JSON."""
ANSWER = "answer"
"""The name of the only field of a value that isn't an object."""
RAW = "~json"
"""The name of the box that takes the whole value as JSON; no path contains "~j"."""
ROW = "*"
"""Stands for a row's number in the names of the row that a page copies."""
AREA_FROM = 200
"""Characters that a text may have, from which it gets several lines."""

Widget = Literal[
    "text",
    "area",
    "number",
    "integer",
    "checkbox",
    "select",
    "json",
    "group",
    "rows",
    "radio",
    "message",
    "date",
]


class Field(msgspec.Struct, frozen=True):
    """One field of a form.

    Attributes:
        path: the field's name in the form.
        key: of its value in the object around it; a row's number.
        choices: of a "select" or "radio", as JSON texts.
        value: the text that it shows.
        start: the text that it begins with.
        fields: of a "group"; the rows of "rows".
        row: of "rows", the row that is copied for a further one.
        error: why its text was refused.
        spec: the schema of its value.
    """

    path: str
    key: str
    label: str
    widget: Widget
    required: bool = False
    choices: tuple[str, ...] = ()
    value: str = ""
    help: str = ""
    fields: tuple["Field", ...] = ()
    row: "Field | None" = None
    error: str = ""
    spec: Mapping[str, Any] = {}
    start: str = ""


class Form(msgspec.Struct, frozen=True):
    """The form of one value.

    Attributes:
        whole: whether the only field is the value itself, not a key of it.
        error: why the value as a whole was refused.
        schema: of the value; None if any is taken.
    """

    fields: tuple[Field, ...]
    whole: bool = False
    error: str = ""
    schema: Mapping[str, Any] | None = None


class FormError(ValueError):
    """GivenTexts of a form don't fit.

    Attributes:
        errors: path of a field -> why; "" for the whole value.
    """

    def __init__(self, errors: Mapping[str, str]) -> None:
        super().__init__(
            "; ".join(f"{path}: {text}" if path else text for path, text in errors.items())
        )
        self.errors = errors


class GivenTexts(msgspec.Struct, frozen=True):
    """What a form that was sent contains; `given` is None for a new form.

    Attributes:
        errors: path of a field -> why its text was refused.
    """

    given: Mapping[str, str] | None = None
    errors: Mapping[str, str] = {}

    def of(self, path: str, default: str) -> str:
        """Return the text of a field."""
        return default if self.given is None or ROW in path.split("/") else self.given.get(path, "")

    def rows(self, path: str, default: Any) -> list[str]:
        """Return the numbers of a list's rows, in their order."""
        if self.given is None:
            found = cast("list[Any]", default) if isinstance(default, list | tuple) else []
            return [str(at) for at in range(len(found))]
        start = path + "/"
        parts = {
            name[len(start) :].partition("/")[0] for name in self.given if name.startswith(start)
        }
        return sorted((one for one in parts if one.isdecimal() and len(one) < 9), key=int)[
            :ROWS_MAX
        ]


NEW = GivenTexts()


def schema_of(question: Any, schema: Any = None) -> Mapping[str, Any] | None:
    """Return the JSON schema of a question's answer; None if it has none.

    Args:
        schema: that the question has beside its value (`Interrupt.response_schema`).
    """
    if isinstance(schema, Mapping):
        return cast("Mapping[str, Any]", schema)
    if not isinstance(question, Mapping):
        return None
    for key in SCHEMA_KEYS:
        found = cast("Mapping[str, Any]", question).get(key)
        if isinstance(found, Mapping):
            return cast("Mapping[str, Any]", found)
    return None


def without_schema(question: Any) -> Any:
    """Return a question's value without the schema of its answer, which its form shows."""
    if schema_of(question) is None:
        return question
    given = cast("Mapping[str, Any]", question)
    return {key: value for key, value in given.items() if key not in SCHEMA_KEYS}


def form_of(schema: Mapping[str, Any] | None, texts: GivenTexts = NEW) -> Form:
    """Make the form of a value with a JSON schema, or of any value."""
    error = texts.errors.get("", "")
    if schema is None:
        value = texts.of(ANSWER, "")
        field = Field(ANSWER, ANSWER, "Answer", "area", value=value, help="text, or JSON")
        return Form((field,), whole=True, error=error)
    maker = _FieldMaker(schema, texts)
    spec = maker.resolved(schema)
    if maker.is_object(spec):
        fields = tuple(maker.properties(spec, "", spec.get("default"), 0))
        return Form(fields, error=error, schema=schema)
    field = maker.field(ANSWER, ANSWER, schema, required=True, depth=0)
    return Form((field,), whole=True, error=error, schema=schema)


class _FieldMaker:
    """Makes the fields of a schema, with the texts that they show."""

    def __init__(self, schema: Mapping[str, Any], texts: GivenTexts) -> None:
        self._schema = schema
        self._texts = texts

    def is_object(self, spec: Mapping[str, Any]) -> bool:
        """Whether a schema's value is an object whose fields are known and few."""
        properties = spec.get("properties")
        return (
            spec.get("type", "object") == "object"
            and isinstance(properties, Mapping)
            and 0 < len(cast("Mapping[str, Any]", properties)) <= FIELDS_MAX
        )

    def properties(
        self, spec: Mapping[str, Any], path: str, default: Any, depth: int
    ) -> Iterator[Field]:
        said = spec.get("required")
        required = cast("list[Any]", said) if isinstance(said, list | tuple) else []
        values = cast("Mapping[str, Any]", default) if isinstance(default, Mapping) else {}
        for name, given in cast("Mapping[str, Any]", spec["properties"]).items():
            own = {"default": values[name]} if name in values else {}
            inner = f"{path}/{_quoted(name)}" if path else _quoted(name)
            yield self.field(inner, name, given, required=name in required, depth=depth, **own)

    def field(
        self, path: str, key: str, given: Any, *, required: bool, depth: int, **own: Any
    ) -> Field:
        """Make the field of one value; `own` may have a `default` that goes before the schema's."""
        spec = {**self.resolved(given), **own}
        default = spec.get("default")
        field = Field(
            path,
            key,
            str(spec.get("title") or key),
            _widget(spec),
            required,
            help=_help(spec),
            error=self._texts.errors.get(path, ""),
            spec=spec,
        )
        change = msgspec.structs.replace
        choices = _choices(spec)
        if choices:
            start = json.dumps(default) if "default" in spec else choices[0] * (len(choices) == 1)
            value = self._texts.of(path, start if start in choices else "")
            widget = spec.get("widget") or "select"
            start = start if start in choices else ""
            return change(field, widget=widget, choices=choices, value=value, start=start)
        if depth < DEPTH_MAX and self.is_object(spec):
            inner = tuple(self.properties(spec, path, default, depth + 1))
            return change(field, widget="group", fields=inner)
        if (
            depth < DEPTH_MAX
            and spec.get("type") == "array"
            and isinstance(spec.get("items"), Mapping)
        ):
            return change(field, widget="rows", **self._rows(spec, path, default, depth))
        text = _text_of(field.widget, default)
        return change(field, value=self._texts.of(path, text), start=text)

    def _rows(self, spec: Mapping[str, Any], path: str, default: Any, depth: int) -> dict[str, Any]:
        def row(number: str, **own: Any) -> Field:
            made = self.field(
                f"{path}/{number}", number, spec["items"], required=True, depth=depth + 1, **own
            )
            return msgspec.structs.replace(made, label="" if made.label == number else made.label)

        known = cast("list[Any]", default) if isinstance(default, list | tuple) else []
        found = [
            row(one, **({"default": known[int(one)]} if int(one) < len(known) else {}))
            for one in self._texts.rows(path, default)
        ]
        return {"fields": tuple(found), "row": row(ROW)}

    def resolved(self, given: Any, depth: int = 0) -> dict[str, Any]:
        """Return the schema of a value: a reference followed, and of `T | None` that of T."""
        spec = dict(cast("Mapping[str, Any]", given)) if isinstance(given, Mapping) else {}
        if depth > DEPTH_MAX:
            return spec
        for key in ("anyOf", "oneOf", "allOf"):
            found = spec.get(key)
            if isinstance(found, list | tuple):
                others = [one for one in cast("list[Any]", found) if one != {"type": "null"}]
                if len(others) == 1 and isinstance(others[0], Mapping):
                    del spec[key]
                    spec = {**self.resolved(others[0], depth + 1), **spec}
                    spec["nullable"] = len(others) < len(cast("list[Any]", found))
        kinds = spec.get("type")
        if isinstance(kinds, list | tuple):
            names = [one for one in cast("list[Any]", kinds) if one != "null"]
            spec["nullable"] = len(names) < len(cast("list[Any]", kinds))
            spec["type"] = names[0] if len(names) == 1 else None
        found = self._referenced(spec.get("$ref"))
        if found is not None:
            del spec["$ref"]
            # The name of a class names its fields worse than their own keys do.
            there = {k: v for k, v in self.resolved(found, depth + 1).items() if k != "title"}
            return {**there, **spec}
        return spec

    def _referenced(self, reference: Any) -> Any:
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return None
        found: Any = self._schema
        for name in reference[2:].split("/"):
            if not isinstance(found, Mapping):
                return None
            found = cast("Mapping[str, Any]", found).get(_unquoted(name))
        return found


def _text_of(widget: Widget, default: Any) -> str:
    if default is None:
        return ""
    if widget == "json":
        return json.dumps(default, indent=2, ensure_ascii=False)
    return default if isinstance(default, str) else json.dumps(default)


def _quoted(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _unquoted(part: str) -> str:
    return part.replace("~1", "/").replace("~0", "~")


def _help(spec: Mapping[str, Any]) -> str:
    """The description, and the limits that the schema sets."""
    said = [str(spec.get("description") or "")]
    names = (("minimum", "at least"), ("maximum", "at most"), ("exclusiveMinimum", "more than"))
    said += [f"{text} {spec[name]}" for name, text in names if name in spec]
    return "; ".join(one for one in said if one)


def _choices(spec: Mapping[str, Any]) -> tuple[str, ...]:
    choices = [spec["const"]] if "const" in spec else spec.get("enum")
    if isinstance(choices, list | tuple) and choices:
        return tuple(json.dumps(choice) for choice in cast("list[Any]", choices))
    if spec.get("type") == "boolean" and spec.get("nullable"):
        return ("true", "false")
    return ()


_WIDGETS: Mapping[Any, Widget] = {
    "boolean": "checkbox",
    "integer": "integer",
    "number": "number",
    "string": "text",
}


def _widget(spec: Mapping[str, Any]) -> Widget:
    kind, most = spec.get("type"), spec.get("maxLength")
    if kind == "string" and spec.get("format") in ("message", "date"):
        return spec["format"]
    if kind == "string" and isinstance(most, int) and most > AREA_FROM:
        return "area"
    return _WIDGETS.get(kind, "json")


def answer_of(form: Form, raw: str = "") -> Any:
    """Read the value from the texts that a form shows.

    Args:
        raw: the text of the box that takes the whole value as JSON, in place of the fields; "" if
            it is empty.
    Raises:
        FormError: texts don't fit their fields, or the value doesn't fit the schema.
    """
    if raw:
        return _checked(form, _json(raw))
    if form.whole and form.schema is None:
        return json_or_text(form.fields[0].value)
    errors: dict[str, str] = {}
    found = _object(form.fields, errors)
    if errors:
        raise FormError(errors)
    return _checked(form, found.get(ANSWER) if form.whole else found)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormError({"": f"the value must be JSON: {error}"}) from error


def _checked(form: Form, value: Any) -> Any:
    wrong = None if form.schema is None else misfit(value, form.schema)
    if wrong is not None:
        raise FormError({"": wrong})
    return value


def _object(fields: tuple[Field, ...], errors: dict[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in fields:
        value = _value(field, errors)
        if value is not msgspec.UNSET:
            found[field.key] = value
    return found


def _value(field: Field, errors: dict[str, str]) -> Any:
    """Read one field; UNSET if it is left out, or if its error was noted."""
    if field.widget == "group":
        if not field.required and _is_empty(field):
            return msgspec.UNSET
        return _object(field.fields, errors)
    if field.widget == "rows":
        if not field.fields and not field.required:
            return msgspec.UNSET
        rows = [_value(row, errors) for row in field.fields]
        return _fits(field, [row for row in rows if row is not msgspec.UNSET], errors)
    if field.widget == "checkbox":
        return field.value not in ("", "false")
    if field.value == "":
        if field.required:
            errors[field.path] = "required"
        return msgspec.UNSET
    try:
        value = _read(field, field.value)
    except ValueError as error:
        errors[field.path] = str(error)
        return msgspec.UNSET
    return _fits(field, value, errors)


def _fits(field: Field, value: Any, errors: dict[str, str]) -> Any:
    wrong = misfit(value, {k: v for k, v in field.spec.items() if k not in ("type", "items")})
    if wrong is not None:
        errors[field.path] = wrong.replace(" at $,", ",").replace(" at $", "")
    return value


def _is_empty(field: Field) -> bool:
    """Whether nothing was given in a field besides what it began with."""
    if field.widget in ("group", "rows"):
        return all(map(_is_empty, field.fields))
    return field.value in ("", "false", field.start)


def _read(field: Field, text: str) -> Any:
    """Read a text as its field's kind.

    Raises:
        ValueError: it is none of that kind.
    """
    if field.widget in ("text", "area", "message", "date"):
        return text
    if field.choices and text not in field.choices:
        raise ValueError(f"must be one of {', '.join(field.choices)}")
    kind = {"integer": "a whole number", "number": "a number"}.get(field.widget, "JSON")
    try:
        if field.widget == "integer":
            return int(text)
        found = json.loads(text) if field.widget != "number" else float(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"must be {kind}: {error}") from error
    if isinstance(found, float) and not isfinite(found):
        raise ValueError(f"must be {kind}: got {text!r}")
    return found


def json_or_text(text: str) -> Any:
    """Read JSON; anything that is not JSON is text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def choice_text(choice: str) -> str:
    """Return a choice as people read it: a text without quotes, unless it looks like JSON."""
    found = json.loads(choice)
    return found if isinstance(found, str) and json_or_text(found) is found else choice
