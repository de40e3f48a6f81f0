"""Conversions of stored inputs: those of runs that have not begun, or that died in exit mode."""

from typing import Any

import pytest

from actorgraph.codec.conversions import migrated_input, with_note, without_note
from actorgraph.plan.plan import Plan
from actorgraph.values.checkpoint import Migration
from actorgraph.values.commands import Command, Send
from tests.codec.test_migrations import PLAN, migrating

TENS = Migration(values={"n": lambda n: n * 10}, channels={"was": "n"}, nodes={"old": "b"})


def kept(by: Plan, given: Any) -> Any:
    """An input as the next version of a program reads it, after one stored it."""
    stored, converted, _ = without_note(with_note(by, given))
    return migrated_input(migrating(TENS), stored, converted)


class TestInputs:
    @pytest.mark.parametrize(
        ("given", "made"),
        [
            ({"was": 1, "text": "x"}, {"n": 10, "text": "x"}),
            (Command(update={"n": 1}, goto="old"), Command(update={"n": 10}, goto=["b"])),
            (
                Command(goto=[Send("old", {"n": 1})]),
                Command(goto=[Send("b", {"n": 10})]),
            ),
            (Command(resume="yes"), Command(resume="yes")),
            ("text", "text"),
        ],
    )
    def test_an_input_of_the_older_version(self, given, made):
        """
        Its keys and nodes have the names of today, and its values are converted.
        """
        assert kept(PLAN, given) == made

    @pytest.mark.parametrize("given", [{"n": 1}, Command(update={"n": 1}), "text", None])
    def test_an_input_of_the_same_version(self, given):
        """
        It is as it was: it was written in today's form.
        """
        assert kept(migrating(TENS), given) == given

    def test_the_graph_is_noted(self):
        """
        So another version knows that it was not the one that accepted the input.
        """
        given = {"n": 1}

        assert without_note(with_note(PLAN, given)) == (given, {}, PLAN.graph_id)

    def test_an_input_without_a_note(self):
        """
        Older versions of the library stored it as it was given.
        """
        given = {"n": 1}

        assert without_note(given) == (given, {}, "")
        assert migrated_input(PLAN, given) is given
