"""Typical mistakes of newcomers: each gets a message that names the culprit and says what to do.

The table is in `building_mistakes.py`, `calling_mistakes.py` and `storage_mistakes.py`.
"""

import inspect
import re

import pytest

from tests.errors import building_mistakes, calling_mistakes, storage_mistakes
from tests.errors.mistakes import MISTAKES, message_of

FILES = (building_mistakes, calling_mistakes, storage_mistakes)
"""Importing them fills the table."""
LINES_MAX = 3
CHARACTERS_MAX = 330
INTERNAL = re.compile(
    r"object at 0x|<locals>|__return__|__pregel|\b_[a-z]"
    r"|\bactorgraph\.(api|runtime|superstep|plan)\b"
)


class TestMistakes:
    def test_the_table_is_long_enough(self):
        """
        It has the forty-two mistakes that newcomers were seen to make, and their siblings.
        """
        assert len(MISTAKES) >= 42

    @pytest.mark.filterwarnings("ignore:coroutine 'CompiledStateGraph.ainvoke' was never awaited")
    @pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
    @pytest.mark.parametrize("name", MISTAKES)
    def test_the_message_is_exact(self, name, request, tmp_path):
        """
        Each program fails with the message in the table.
        """
        row = MISTAKES[name]
        names = inspect.signature(row.program).parameters

        with pytest.raises((Exception, Warning)) as raised:
            row.program(**{each: request.getfixturevalue(each) for each in names})

        assert message_of(raised.value, tmp_path) == row.expected

    @pytest.mark.parametrize("name", MISTAKES)
    def test_the_message_is_short_and_helps(self, name):
        """
        It fits in about three lines, names nothing internal, and says what to do.
        """
        row = MISTAKES[name]

        assert len(row.expected) <= CHARACTERS_MAX
        assert row.expected.count("\n") < LINES_MAX
        if not row.of_python:
            assert not INTERNAL.search(row.expected)
            assert "\n  Do this: " in row.expected
