"""Ctrl-C during a blocking call of plain functions: in processes of their own."""

import ast

import pytest

from tests.support.warm_processes import run

SECONDS_MAX = 60
ENDS_WITHIN_S = 1.0
"""Half a second on a quiet machine."""


def told(when: str, path: object) -> list[list[object]]:
    """The lines that the program has printed, without their spaces."""
    done = run(["-m", "tests.runtime.ctrl_c_programs", when, path], timeout=SECONDS_MAX)
    assert done.returncode == 0, done.stderr
    return [
        list(ast.literal_eval(f"({line.replace('] ', '], ').replace(' [', ', [', 1)},)"))
        for line in done.stdout.splitlines()
    ]


@pytest.mark.parametrize("when", ["waiting", "at_once", "nested", "twice", "stream"])
def test_a_function_is_interrupted_at_once(when, tmp_path):
    """
    KeyboardInterrupt rises in the function, finished work is stored, and the thread goes on later.
    """
    (took, ran, stored), (again, restored) = told(when, tmp_path / "runs.db")

    assert took < ENDS_WITHIN_S
    assert (ran, stored) == (["a", "b"], ["a"])
    assert (again, restored) == (["a", "b", "c"], True)


def test_functions_of_other_threads_are_left(tmp_path):
    """
    Functions that run side by side don't hold the program, and what one has returned is stored.
    """
    (took, _, stored), (again, restored) = told("side_by_side", tmp_path / "runs.db")

    assert took < ENDS_WITHIN_S
    assert {*stored} == {"a"}
    assert (sorted(again), restored) == (["a", "b", "c"], True)


def test_between_functions_it_ends_the_call(tmp_path):
    """
    A graph of functions that never wait ends too, and goes on later from where it was.
    """
    (took, _, _), (again, _) = told("between", tmp_path / "runs.db")

    assert took < ENDS_WITHIN_S
    assert again == ["x"]


def test_a_commit_is_not_cut_off(tmp_path):
    """
    While a commit waits for the database, the call ends when it is made; nothing of it is lost.
    """
    (took, ran, stored), (again, restored) = told("in_a_commit", tmp_path / "runs.db")

    assert took < ENDS_WITHIN_S
    assert ran == stored == ["a", "b"]
    assert (again, restored) == (["a", "b", "c"], True)
