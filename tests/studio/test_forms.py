"""actorgraph.studio.question_forms: fields of questions, and their answers."""

import pytest

from actorgraph.studio.question_forms import (
    ANSWER,
    FormError,
    answer_of,
    form_of,
    without_schema,
)

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


class TestFields:
    def test_a_schema_gives_a_field_for_each_property(self):
        """
        The widget follows the property's type; enums are choices, long texts areas.
        """
        fields = form_of(ORDER).fields

        assert [(one.name, one.widget) for one in fields] == [
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
        form = form_of(question)

        assert (form.whole, [one.name for one in form.fields]) == (True, [ANSWER])
        assert answer_of(form, {ANSWER: '{"a": 1}'}) == {"a": 1}
        assert answer_of(form, {ANSWER: "yes, do"}) == "yes, do"

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

        assert answer_of(form_of(ORDER), given) == {
            "ok": True,
            "amount": 1.5,
            "why": 3,
            "more": [1],
        }

    def test_an_absent_checkbox_is_false(self):
        """
        Browsers leave out boxes that aren't checked.
        """
        assert answer_of(form_of(ORDER), {"amount": "1"}) == {"ok": False, "amount": 1.0}

    @pytest.mark.parametrize(
        ("given", "text"),
        [
            ({"ok": "true"}, "'amount' is required"),
            ({"amount": "much"}, "'amount' must be a number"),
            ({"amount": "1", "count": "1.5"}, "'count' must be a whole number"),
            ({"amount": "1", "why": '"other"'}, "'why' must be one of"),
            ({"amount": "1", "more": "["}, "'more' must be JSON"),
        ],
    )
    def test_a_wrong_text_names_its_field(self, given, text):
        """
        The error says which field is wrong and what it must be.
        """
        with pytest.raises(FormError, match=text):
            answer_of(form_of(ORDER), given)

    def test_a_schema_of_a_scalar_is_the_answer_itself(self):
        """
        An answer of a schema without properties is the value of its only field.
        """
        form = form_of({"schema": {"type": "integer"}})

        assert answer_of(form, {ANSWER: "7"}) == 7


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

        (field,) = form_of({"schema": schema}).fields
        assert field.widget == widget
        assert not field.required

    @pytest.mark.parametrize("text", ["nan", "inf", "1e999"])
    def test_a_number_is_finite(self, text):
        """
        JSON has no infinity: such an answer is refused.
        """
        form = form_of({"schema": {"type": "number"}})

        with pytest.raises(FormError, match="must be a number"):
            answer_of(form, {ANSWER: text})
