"""Waits of runs for runs, as the pure rule sees them."""

from collections.abc import Mapping, Sequence

import pytest

from actorgraph.rules.system.scheduling import RunPlace, leads_back

A, B, C, D = (RunPlace(1, name.lower(), name.encode()) for name in "ABCD")

Needs = Mapping[RunPlace, Sequence[RunPlace]]


@pytest.mark.parametrize(
    ("needs", "expected"),
    [
        ({}, False),
        ({B: [A]}, True),
        ({B: [C], C: [D]}, False),
        ({B: [C, D], D: [A]}, True),
        ({B: [C, D], C: [A]}, True),
        ({B: [C], C: [B]}, False),
    ],
    ids=["nothing", "directly", "a line", "one of two", "the other one", "a circle of others"],
)
def test_a_wait_is_endless_if_it_leads_back(needs: Needs, expected: bool):
    """
    A wait for B is endless if the needs of B lead to A; a circle without A lets A wait.
    """
    assert leads_back(A, B, lambda run: needs.get(run, ())) is expected


def test_a_wait_for_itself_is_endless():
    """
    A run that waits for its own end has led back at once.
    """
    assert leads_back(A, A, lambda _: ())


def test_threads_of_two_savers_differ():
    """
    A run of a thread with the same id in another saver is another one.
    """
    other = A._replace(saver=2)

    assert other.thread != A.thread
    assert not leads_back(A, other, lambda _: ())
