"""actorgraph.studio.question_forms: fields of questions, and their answers."""

import pytest

from actorgraph.studio.question_forms import (
    ANSWER,
    FIELDS_MAX,
    FormError,
    GivenTexts,
    answer_of,
    choice_text,
    form_of,
    schema_of,
    without_schema,
)
from actorgraph.studio.review_forms import decisions_of, is_review, reviews_of

ORDER = {
    "question": "Approve?",
    "schema": {
        "type": "object",
        "required": ["ok", "amount"],
        "properties": {
            "ok": {"type": "boolean", "title": "Approve"},
            "amount": {"type": "number"},
            "count": {"type": "integer", "default": 2},
            "why": {"enum": ["price", 3, None]},
            "note": {"type": "string", "maxLength": 500},
            "more": {"type": "array"},
        },
    },
}


def fields_of(question):
    """The fields of a question's form."""
    return form_of(schema_of(question)).fields


def answered(question, given, raw=""):
    """The answer of a question's form that was sent with these texts."""
    return answer_of(form_of(schema_of(question), GivenTexts(given)), raw)


def errors_of(schema, given, raw=""):
    """Why a form is refused, by the paths of its fields."""
    with pytest.raises(FormError) as refused:
        answered({"schema": schema}, given, raw)
    return refused.value.errors


class TestFields:
    def test_a_schema_gives_a_field_for_each_property(self):
        """
        The widget follows the property's type; enums are choices, long texts areas.
        """
        fields = fields_of(ORDER)

        assert [(one.path, one.widget) for one in fields] == [
            ("ok", "checkbox"),
            ("amount", "number"),
            ("count", "integer"),
            ("why", "select"),
            ("note", "area"),
            ("more", "json"),
        ]
        assert (fields[0].label, fields[0].required, fields[2].value) == ("Approve", True, "2")
        assert fields[3].choices == ('"price"', "3", "null")

    @pytest.mark.parametrize("question", ["why?", {"q": "why?"}, None, {"schema": "text"}, [1]])
    def test_any_other_question_gets_one_field(self, question):
        """
        A question without a schema is answered by JSON, or by text that isn't JSON.
        """
        form = form_of(schema_of(question))

        assert (form.whole, [one.path for one in form.fields]) == (True, [ANSWER])
        assert answered(question, {ANSWER: '{"a": 1}'}) == {"a": 1}
        assert answered(question, {ANSWER: "yes, do"}) == "yes, do"

    def test_the_schema_is_not_shown_with_the_question(self):
        """
        A question is shown without the schema that its form is made of; any other one is whole.
        """
        assert without_schema(ORDER) == {"question": "Approve?"}
        assert without_schema({"schema": "text"}) == {"schema": "text"}


class TestAnswers:
    def test_texts_become_values_of_the_schema(self):
        """
        An answer has the types that the schema names; empty optional fields are left out.
        """
        given = {"ok": "true", "amount": "1.5", "count": "", "why": "3", "more": "[1]", "note": ""}

        assert answered(ORDER, given) == {
            "ok": True,
            "amount": 1.5,
            "why": 3,
            "more": [1],
        }

    def test_an_absent_checkbox_is_false(self):
        """
        Browsers leave out boxes that aren't checked.
        """
        assert answered(ORDER, {"amount": "1"}) == {"ok": False, "amount": 1.0}

    @pytest.mark.parametrize(
        ("given", "text"),
        [
            ({"ok": "true"}, "amount: required"),
            ({"amount": "much"}, "amount: must be a number"),
            ({"amount": "1", "count": "1.5"}, "count: must be a whole number"),
            ({"amount": "1", "why": '"other"'}, "why: must be one of"),
            ({"amount": "1", "more": "["}, "more: must be JSON"),
        ],
    )
    def test_a_wrong_text_names_its_field(self, given, text):
        """
        The error says which field is wrong and what it must be.
        """
        with pytest.raises(FormError, match=text):
            answered(ORDER, given)

    def test_a_schema_of_a_scalar_is_the_answer_itself(self):
        """
        An answer of a schema without properties is the value of its only field.
        """
        assert answered({"schema": {"type": "integer"}}, {ANSWER: "7"}) == 7


class TestUncommonSchemas:
    @pytest.mark.parametrize(
        ("spec", "widget"),
        [
            ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "text"),
            ({"type": ["integer", "null"]}, "integer"),
            ({"$ref": "#/$defs/Size"}, "select"),
            ({"anyOf": [{"$ref": "#/$defs/Size"}, {"type": "null"}]}, "select"),
            ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "json"),
            ({"$ref": "#/$defs/None"}, "json"),
            ({"type": "string", "maxLength": "long"}, "text"),
            (True, "json"),
        ],
    )
    def test_references_and_optional_types_are_followed(self, spec, widget):
        """
        `T | None` and a reference to a definition get the widget of their type; others take JSON.
        """
        schema = {
            "type": "object",
            "required": True,
            "properties": {"it": spec},
            "$defs": {"Size": {"enum": ["s", "m"]}},
        }

        (field,) = form_of(schema).fields
        assert field.widget == widget
        assert not field.required

    @pytest.mark.parametrize("text", ["nan", "inf", "1e999"])
    def test_a_number_is_finite(self, text):
        """
        JSON has no infinity: such an answer is refused.
        """
        with pytest.raises(FormError, match="must be a number"):
            answered({"schema": {"type": "number"}}, {ANSWER: text})


ADDRESS = {
    "type": "object",
    "title": "Address",
    "required": ["street"],
    "properties": {
        "street": {"type": "string"},
        "old": {"type": "boolean"},
        "land": {"type": "string", "default": "Austria"},
    },
}
NESTED = {
    "type": "object",
    "required": ["to", "items"],
    "properties": {
        "to": {"$ref": "#/$defs/Address"},
        "bill": {"anyOf": [{"$ref": "#/$defs/Address"}, {"type": "null"}]},
        "items": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": {"type": "string"},
                    "tags": {"type": "array", "items": {"type": "string"}},
                },
            },
        },
    },
    "$defs": {"Address": ADDRESS},
}


class TestNestedValues:
    def test_objects_are_groups_and_lists_are_rows(self):
        """
        Each level has its own fields, whose names are paths; the row to copy has a star in them.
        """
        to, bill, items = form_of(NESTED).fields

        assert (to.widget, [one.path for one in to.fields]) == (
            "group",
            ["to/street", "to/old", "to/land"],
        )
        assert (to.label, bill.label) == ("to", "bill")
        assert (bill.widget, bill.required) == ("group", False)
        assert (items.widget, items.fields) == ("rows", ())
        assert [one.path for one in items.row.fields] == ["items/*/name", "items/*/tags"]
        assert items.row.fields[1].row.path == "items/*/tags/*"

    def test_texts_become_a_nested_value(self):
        """
        Rows keep their order whatever their numbers are; an optional group without texts is absent.
        """
        given = {
            "to/street": "Elm 1",
            "bill/street": "",
            "bill/land": "Austria",
            "items/10/~row": "1",
            "items/10/name": "b",
            "items/2/name": "a",
            "items/2/tags/0": "x",
        }

        assert answered({"schema": NESTED}, given) == {
            "to": {"street": "Elm 1", "old": False},
            "items": [{"name": "a", "tags": ["x"]}, {"name": "b"}],
        }

    def test_errors_are_beside_their_fields(self):
        """
        Each wrong field has its own error, also inside of rows, and the form keeps all texts.
        """
        given = {"to/old": "true", "items/0/name": "", "items/0/tags/0": "x"}
        errors = errors_of(NESTED, given)
        to, _, items = form_of(NESTED, GivenTexts(given, errors)).fields

        assert errors == {"to/street": "required", "items/0/name": "required"}
        assert (to.fields[0].error, to.fields[1].value) == ("required", "true")
        assert items.fields[0].fields[0].error == "required"
        assert items.fields[0].fields[1].fields[0].value == "x"

    def test_a_list_has_its_own_errors(self):
        """
        A list that is too short is refused at the list.
        """
        assert "minItems 1" in errors_of(NESTED, {"to/street": "x"})["items"]

    def test_defaults_fill_groups_and_rows(self):
        """
        The default of an object or of a list is what its fields begin with.
        """
        schema = {
            "type": "object",
            "properties": {
                "at": {**ADDRESS, "default": {"street": "Oak 2", "old": True}},
                "list": {"type": "array", "items": {"type": "integer"}, "default": [4, 5]},
            },
        }
        at, numbers = form_of(schema).fields

        assert [one.value for one in at.fields] == ["Oak 2", "true", "Austria"]
        assert [one.value for one in numbers.fields] == ["4", "5"]

    def test_names_with_slashes_are_fields(self):
        """
        A key with the characters of paths is read back as it is.
        """
        schema = {"type": "object", "properties": {"a/b~c": {"type": "string"}}}
        (field,) = form_of(schema).fields

        assert answered({"schema": schema}, {field.path: "x"}) == {"a/b~c": "x"}

    @pytest.mark.parametrize(
        "schema",
        [
            {"type": "object", "additionalProperties": {"type": "integer"}},
            {"type": "object", "properties": {f"k{n}": {} for n in range(FIELDS_MAX + 1)}},
            {"anyOf": [ADDRESS, {"type": "object", "properties": {"id": {"type": "integer"}}}]},
        ],
    )
    def test_what_no_fields_fit_has_a_box_for_json(self, schema):
        """
        Open objects, very large ones and choices between objects are given as JSON.
        """
        (field,) = form_of(schema).fields

        assert field.widget == "json"
        assert answered({"schema": schema}, {ANSWER: "{}"}) == {}

    def test_a_schema_that_contains_itself_ends(self):
        """
        Below some levels the fields of a tree become a box for JSON.
        """
        node = {"type": "object", "properties": {"below": {"$ref": "#/$defs/Node"}}}
        field = form_of({"$ref": "#/$defs/Node", "$defs": {"Node": node}}).fields[0]
        while field.fields:
            field = field.fields[0]

        assert field.widget == "json"

    def test_limits_are_checked(self):
        """
        A number outside of its limits is refused at its field.
        """
        schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}}

        assert errors_of(schema, {"n": "0"}) == {"n": "expected minimum 1, got 0"}
        assert form_of(schema).fields[0].help == "at least 1"

    def test_any_form_can_be_answered_by_json(self):
        """
        The box for JSON takes the whole value, which must fit the schema.
        """
        assert answered(ORDER, {}, '{"ok": true, "amount": 1}') == {"ok": True, "amount": 1}
        assert "'amount' is missing" in errors_of(ORDER["schema"], {}, '{"ok": true}')[""]
        assert "must be JSON" in errors_of(ORDER["schema"], {}, "{")[""]

    @pytest.mark.parametrize(
        ("choice", "text"), [('"price"', "price"), ("3", "3"), ('"3"', '"3"'), ('"null"', '"null"')]
    )
    def test_choices_are_read_without_quotes(self, choice, text):
        """
        A choice that could be mistaken for a number keeps its quotes.
        """
        assert choice_text(choice) == text


CALLS = {
    "action_requests": [
        {"name": "send", "args": {"to": "ada", "copies": 2}, "description": "Sends a letter"},
        {"name": "drop", "args": {}},
    ],
    "review_configs": [
        {"action_name": "send", "allowed_decisions": ["approve", "edit", "reject", "respond"]},
        {"action_name": "drop", "allowed_decisions": ["approve", "reject"]},
    ],
}


class TestReviews:
    def test_each_call_has_its_allowed_decisions(self):
        """
        The arguments can be changed only where an edit is allowed; their fields begin with them.
        """
        send, drop = reviews_of(CALLS)

        assert [choice_text(one) for one in send.decision.choices] == [
            *("approve", "edit", "reject", "respond"),
        ]
        assert [(one.key, one.value) for one in send.args.fields] == [
            ("to", "ada"),
            ("copies", "2"),
        ]
        assert (send.description, drop.args) == ("Sends a letter", None)
        assert is_review(CALLS)
        assert not is_review({"action_requests": "none"})

    @pytest.mark.parametrize(
        ("given", "decision"),
        [
            ({"0/decision": '"approve"'}, {"type": "approve"}),
            (
                {"0/decision": '"edit"', "0/args/to": "eve", "0/args/copies": "3"},
                {
                    "type": "edit",
                    "edited_action": {"name": "send", "args": {"to": "eve", "copies": 3}},
                },
            ),
            ({"0/decision": '"reject"', "0/message": ""}, {"type": "reject"}),
            (
                {"0/decision": '"respond"', "0/message": "done"},
                {"type": "respond", "message": "done"},
            ),
        ],
    )
    def test_decisions_become_the_answer(self, given, decision):
        """
        The answer has a decision for each call, with what belongs to it.
        """
        texts = GivenTexts({"1/decision": '"reject"', "1/message": "no", **given})

        found = decisions_of(CALLS, texts)
        assert found == {"decisions": [decision, {"type": "reject", "message": "no"}]}

    @pytest.mark.parametrize(
        ("given", "path"),
        [
            ({}, "0/decision"),
            ({"0/decision": '"respond"'}, "0/message"),
            ({"0/decision": '"edit"', "0/args/to": "x", "0/args/copies": "many"}, "0/args/copies"),
        ],
    )
    def test_errors_of_decisions_are_beside_their_fields(self, given, path):
        """
        A missing decision, a response without a text and a wrong argument are named.
        """
        with pytest.raises(FormError) as refused:
            decisions_of(CALLS, GivenTexts({"1/decision": '"approve"', **given}))

        assert list(refused.value.errors) == [path]
