"""Clients of a real server that go away; those that are slow or many are in tests/faults."""

import pytest

from tests.web.connections import SLEEP, begun, is_at_rest, more_tasks, settled, until
from tests.web.processes import server


@pytest.mark.parametrize("kind", ["uvicorn", "hypercorn on trio"])
def test_a_client_goes_away(kind, tmp_path):
    """
    With `on_disconnect="cancel"` its run is cancelled, streamed or waited for, and no task, place,
    claim or reader is left; with "continue" only the run is.
    """
    with server(kind, tmp_path / "runs.db") as made:
        before = settled(made)
        for number, what in enumerate(("stream", "wait"), start=1):
            path = f"/threads/t/runs/{what}"
            gone = begun(made, path, {**SLEEP, "on_disconnect": "cancel"})
            until(made, lambda inside: inside["active"] == 1)
            gone.close()
            left = until(made, lambda i: is_at_rest(i) and not more_tasks(i, before))
            assert left["open_rows"] == []
            assert left["left"] == {"cancelled": number}

        gone = begun(made, "/threads/t/runs/stream", {**SLEEP, "on_disconnect": "continue"})
        until(made, lambda inside: inside["active"] == 1)
        gone.close()
        still = until(made, lambda inside: not inside["streams"] and not inside["readers"])
        assert still["active"] == 1
        assert len(still["open_rows"]) == 1
