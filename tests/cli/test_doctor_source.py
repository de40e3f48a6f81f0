"""The syntax trees that doctor finds of functions that exist already."""

import ast
import linecache
import runpy

from actorgraph.cli.doctor.function_source import syntax_of

TWO = (lambda state: state["a"]), (lambda state: input(state["b"]))
INSIDE = lambda state: lambda: input(state["b"])  # noqa: E731


def text_of(function):
    tree = syntax_of(function)
    assert isinstance(tree, ast.Lambda)
    return ast.unparse(tree.body)


def test_lambdas_of_one_line_are_kept_apart():
    """
    The text of a lambda is found by its position, also beside and inside of another one.
    """
    assert [text_of(each) for each in (*TWO, INSIDE, INSIDE({}))] == [
        "state['a']",
        "input(state['b'])",
        "lambda: input(state['b'])",
        "input(state['b'])",
    ]


def test_a_file_that_was_changed_after_its_import_is_not_believed(tmp_path):
    """
    The text counts only if it compiles to the code that runs.
    """
    path = tmp_path / "changed.py"
    path.write_text("def route(state):\n    return input()\n")
    route = runpy.run_path(str(path))["route"]
    assert syntax_of(route) is not None
    path.write_text("def route(state):\n    return state['x']\n")
    linecache.clearcache()

    assert syntax_of(route) is None
