"""The page of errors: every public exception and warning, with cause and cure."""

import re

import pytest

import actorgraph.errors
from actorgraph.errors import ErrorCode
from tests.support.source_files import ROOT

TEXT = (ROOT / "docs" / "errors.md").read_text("utf-8")
SECTIONS = dict(re.findall(r"^### (\w+)\n(.*?)(?=^##|\Z)", TEXT, re.MULTILINE | re.DOTALL))
ALIASES = {"AlreadyResumed": "AlreadyResumedError"}
CLASSES = [
    name
    for name in actorgraph.errors.__all__
    if isinstance(found := getattr(actorgraph.errors, name), type)
    and issubclass(found, BaseException)
]


class TestErrorsPage:
    @pytest.mark.parametrize("name", CLASSES)
    def test_each_class_has_cause_and_cure(self, name):
        """
        A reader finds each class under a heading of its own.
        """
        section = SECTIONS[ALIASES.get(name, name)]

        for part in ("- **You see**: ", "- **Cause**: ", "- **Cure**: "):
            assert part in section

    def test_it_has_no_other_class(self):
        """
        A class that was removed leaves the page too.
        """
        assert sorted(SECTIONS) == sorted({ALIASES.get(name, name) for name in CLASSES})

    @pytest.mark.parametrize("code", list(ErrorCode))
    def test_each_code_is_explained(self, code):
        """
        The value of `error.code` leads to its class.
        """
        assert f"| `{code.value}` |" in TEXT
