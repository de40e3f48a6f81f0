"""The state machine of tests/savers over every kind of saver, long; every bug in every kind.

ACTORGRAPH_SEQUENCES says how many sequences of 50 steps a kind gets on each event loop; default
200.
"""

import os
from contextlib import ExitStack

import pytest

from tests.faults.crashes import report, row
from tests.savers.machine.own import OWN, planted
from tests.savers.machine.planted import BUGS, HARD
from tests.savers.machine.running import run_machine
from tests.support.every_saver import Store, store

pytestmark = pytest.mark.every_saver

SEQUENCES = int(os.environ.get("ACTORGRAPH_SEQUENCES", "200"))
STEPS = 50

__all__ = ["store"]


def _server(store, request):
    return request.getfixturevalue("postgres") if store.kind == "postgres" else None


@pytest.mark.promise("S081", "B1")
@pytest.mark.every_loop("jsonl", "postgres")
def test_no_difference_from_the_model(store, request, anyio_backend, tmp_path):
    """
    In so many sequences of steps no saver differs from the model.
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


@pytest.mark.every_loop("jsonl", "postgres")
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
    line = row(bug.__name__, store.kind, anyio_backend, _kind(found.value))
    report(request.config, "planted bugs", line)


@pytest.mark.parametrize("own", OWN, ids=lambda own: f"{own.kind}: {own.bug}")
def test_a_bug_of_one_saver_is_found(own, request, anyio_backend, tmp_path):
    """
    With a word changed in the code of one saver the machine finds a difference.
    """
    server = request.getfixturevalue("postgres") if own.kind == "postgres" else None
    with ExitStack() as stack:
        place = Store(own.kind, tmp_path)
        if server is not None:
            schema = stack.enter_context(server.borrow("saver"))
            place = Store(own.kind, tmp_path, server.url, schema)
        stack.enter_context(planted(own))
        with pytest.raises(BaseException) as found:  # noqa: PT011 - which, depends on the bug
            run_machine(
                place,
                anyio_backend,
                tmp_path / "machine",
                sequences=max(SEQUENCES, 600),  # one of them was missed by 200
                steps=STEPS,
                postgres=server,
                stops=True,
            )

    assert not isinstance(found.value, KeyboardInterrupt | SystemExit)
    line = row(own.bug, own.kind, anyio_backend, _kind(found.value))
    report(request.config, "planted bugs", line)


def _kind(error):
    return " ".join([type(error).__name__, str(error)[:60].partition("\n")[0]])
