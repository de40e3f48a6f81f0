"""Figures of the layout that must not get worse: see `python -m tests.support.house`."""

import pytest

from tests.support import house
from tests.support.source_files import ROOT

COMMENTS_MIN = 4.0
FILES_MAX = 30
ROOT_NAMES_MAX = 70


@pytest.fixture(scope="module")
def tree() -> house.Tree:
    """The package's files."""
    return house.Tree.read(ROOT / "actorgraph")


class TestTheLayout:
    def test_a_name_means_one_thing(self, tree):
        """
        No class is defined twice, and no two folders have files of the same name.
        """
        assert house.double_names(tree) == []

    def test_where_the_thinking_is_comments_say_why(self, tree):
        """
        Each file of decisions has at least four lines of comments per hundred.
        """
        rates = house.thinking(tree)

        assert len(rates) >= len(house.THINKING)
        assert {name: rate for name, rate in rates.items() if rate < COMMENTS_MIN} == {}

    def test_docstrings_say_more_than_the_name(self, tree):
        """
        A docstring adds at least one word to the name that it explains.
        """
        assert house.empty_docstrings(tree) == []

    def test_folders_and_the_root_stay_small(self, tree):
        """
        A folder has at most thirty files, the root at most seventy names.
        """
        assert int(house.fullest(tree).split()[0]) <= FILES_MAX
        assert 0 < house.root_names(tree) <= ROOT_NAMES_MAX


class TestItsRules:
    def test_a_class_of_two_files_is_found(self):
        """
        Also where the files are in different folders; so are files of the same name.
        """
        tree = house.Tree({"a/b.py": "class C: ...", "d/e.py": "class C: ...", "d/b.py": ""})

        assert house.double_names(tree) == ["C: a/b.py, d/e.py", "b.py: a, d"]

    def test_a_docstring_without_a_word_of_its_own_is_found(self):
        """
        One that repeats the name of its function is as good as none.
        """
        tree = house.Tree({"a.py": 'def read_rows():\n    """Read rows."""\n'})

        assert house.empty_docstrings(tree)
