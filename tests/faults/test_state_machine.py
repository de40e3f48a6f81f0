"""The state machine of tests/savers over every kind of saver, long; every bug in every kind.

ACTORGRAPH_SEQUENCES says how many sequences of 50 steps a kind gets on each event loop; default
200.
"""

import os

import pytest

from tests.faults.crashes import report, row
from tests.savers.conftest import store
from tests.savers.machine.planted import BUGS, HARD
from tests.savers.machine.running import run_machine

SEQUENCES = int(os.environ.get("ACTORGRAPH_SEQUENCES", "200"))
STEPS = 50

__all__ = ["store"]


def _server(store, request):
    return request.getfixturevalue("postgres") if store.kind == "postgres" else None


def test_no_difference_from_the_model(store, request, anyio_backend, tmp_path):
    """
    In so many sequences of steps no saver differs from the model. Promise: S081, B1.
    """
    steps = run_machine(
        store,
        anyio_backend,
        tmp_path / "machine",
        sequences=SEQUENCES,
        steps=STEPS,
        postgres=_server(store, request),
        shuffled=True,
    )

    line = row(store.kind, anyio_backend, SEQUENCES, steps, 0)
    report(request.config, "state machine", line)


@pytest.mark.parametrize("bug", [*BUGS, *HARD], ids=lambda bug: bug.__name__)
def test_a_planted_bug_is_found(bug, store, request, anyio_backend, tmp_path):
    """
    With a bug around any kind of saver the machine finds a difference.
    """
    with pytest.raises(BaseException) as found:  # noqa: PT011 - which, depends on the bug
        run_machine(
            store,
            anyio_backend,
            tmp_path / "machine",
            sequences=max(SEQUENCES, 200),
            steps=STEPS,
            postgres=_server(store, request),
            bug=bug,
        )

    assert not isinstance(found.value, KeyboardInterrupt | SystemExit)
    kind = type(found.value).__name__
    report(request.config, "planted bugs", row(bug.__name__, store.kind, anyio_backend, kind))
