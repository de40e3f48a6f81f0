"""Suggestions for names that don't exist."""

from actorgraph.errors import did_you_mean


def test_a_longer_name_is_nearer_than_a_similar_one():
    """
    A name that lacks its unit is completed.
    """
    assert did_you_mean("delay", ["replay", "delay_s"]) == "did you mean 'delay_s'?"


def test_the_name_of_the_input_is_not_suggested():
    """
    `__start__` is neither among the choices nor similar to anything.
    """
    assert did_you_mean("x", ["__start__", "a"]) == "the choices are 'a'"
    assert did_you_mean("_start_", ["__start__"]) == "no name of that kind is defined"
