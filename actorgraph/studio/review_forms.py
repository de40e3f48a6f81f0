"""Forms of questions that middleware asks about tool calls: approve, edit, reject, respond. Pure.

The question is `{"action_requests": [{"name", "args", "description"}], "review_configs":
[{"action_name", "allowed_decisions", "args_schema"}]}`; its answer has one decision for each
request, in their order: `{"decisions": [{"type": "approve"}, ...]}`.
"""

from collections.abc import Iterable, Mapping
from typing import Any, cast

import msgspec

from actorgraph.studio.question_forms import AREA_FROM, NEW, Field, GivenTexts, answer_of, form_of
from actorgraph.studio.shown import Shown, shown

DECISIONS = ("approve", "edit", "reject", "respond")
"""The decisions that have fields."""


class Review(msgspec.Struct, frozen=True):
    """One tool call to decide on.

    Attributes:
        decision: a "radio" of the allowed decisions.
        args: the arguments, which an edit changes; None if it isn't allowed.
        given: the arguments as they were asked for.
        message: for a rejection or a response; None if neither is allowed.
    """

    name: str
    description: str
    decision: Field
    args: Field | None
    message: Field | None
    given: Shown


def is_review(question: Any) -> bool:
    """Whether a question, as JSON data, asks about tool calls in this form."""
    if not isinstance(question, Mapping):
        return False
    asked = cast("Mapping[str, Any]", question).get("action_requests")
    return (
        isinstance(asked, list)
        and bool(asked)
        and all(
            isinstance(one, Mapping) and isinstance(one.get("name"), str) for one in _maps(asked)
        )
        and len(_maps(asked)) == len(cast("list[Any]", asked))
    )


def reviews_of(question: Any, texts: GivenTexts = NEW) -> list[Review]:
    """Make the fields of a question about tool calls."""
    given = cast("Mapping[str, Any]", question)
    asked, known = _maps(given["action_requests"]), _maps(given.get("review_configs"))
    form = form_of({"type": "object", "properties": _schemas(asked, known)}, texts)
    return [_review(request, group) for request, group in zip(asked, form.fields, strict=True)]


def _review(request: Mapping[str, Any], group: Field) -> Review:
    inner = {field.key: field for field in group.fields}
    return Review(
        request["name"],
        str(request.get("description") or ""),
        inner["decision"],
        inner.get("args"),
        inner.get("message"),
        shown(request.get("args")),
    )


def decisions_of(question: Any, texts: GivenTexts) -> dict[str, Any]:
    """Read the answer of a form that was sent.

    Raises:
        FormError: texts don't fit their fields.
    """
    given = cast("Mapping[str, Any]", question)
    asked, known = _maps(given["action_requests"]), _maps(given.get("review_configs"))
    found: list[dict[str, Any]] = []
    for at, request in enumerate(asked):
        whole = _schema(request, known)
        chosen = (texts.given or {}).get(f"{at}/decision", "").strip('"')
        used = {"decision": (), "edit": ("args",), "reject": ("message",), "respond": ("message",)}
        names = ("decision", *used.get(chosen, ()))
        properties = {name: spec for name, spec in whole["properties"].items() if name in names}
        must = ["decision", *(["args"] if chosen == "edit" else [])]
        must += ["message"] if chosen == "respond" else []
        schema = {"type": "object", "properties": properties, "required": must}
        form = form_of(
            {"type": "object", "properties": {str(at): schema}, "required": [str(at)]}, texts
        )
        found.append(_decision(request, answer_of(form)[str(at)]))
    return {"decisions": found}


def _decision(request: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    kind = given["decision"]
    if kind == "edit":
        return {"type": kind, "edited_action": {"name": request["name"], "args": given["args"]}}
    return {"type": kind} | ({"message": given["message"]} if "message" in given else {})


def _schemas(
    asked: Iterable[Mapping[str, Any]], known: list[Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    return {str(at): _schema(request, known) for at, request in enumerate(asked)}


def _schema(request: Mapping[str, Any], known: list[Mapping[str, Any]]) -> dict[str, Any]:
    config = next((one for one in known if one.get("action_name") == request["name"]), {})
    said = config.get("allowed_decisions")
    named = cast("list[Any]", said) if isinstance(said, list) else list(DECISIONS)
    allowed = [one for one in named if one in DECISIONS]
    properties: dict[str, Any] = {
        "decision": {
            "enum": allowed or ["approve"],
            "widget": "radio",
            "title": f"Decision about {request['name']}",
        }
    }
    if "edit" in allowed:
        args = request.get("args")
        schema = config.get("args_schema")
        spec = cast("dict[str, Any]", schema) if isinstance(schema, Mapping) else example(args)
        properties["args"] = {**spec, "title": "Arguments", "default": args}
    if "reject" in allowed or "respond" in allowed:
        text = "why it is rejected, or the result to use in its place"
        properties["message"] = {
            "type": "string",
            "title": "Message",
            "maxLength": AREA_FROM + 1_000_000,
            "description": text,
        }
    return {"type": "object", "properties": properties, "required": ["decision", "args"]}


def example(value: Any) -> dict[str, Any]:
    """Return a schema that a value fits: the kinds of its parts, where they are plain."""
    if isinstance(value, Mapping):
        given = cast("Mapping[str, Any]", value)
        parts = {name: example(one) for name, one in given.items()}
        return {"type": "object", "properties": parts, "required": list(given)}
    if isinstance(value, bool):
        return {"type": "boolean"}
    if isinstance(value, int):
        return {"type": "integer"}
    if isinstance(value, float):
        return {"type": "number"}
    if isinstance(value, str):
        long = len(value) > 80 or "\n" in value
        return {"type": "string"} | ({"maxLength": 10_000_000} if long else {})
    return {}


def _maps(given: Any) -> list[Mapping[str, Any]]:
    if not isinstance(given, list):
        return []
    return [one for one in cast("list[Any]", given) if isinstance(one, Mapping)]
