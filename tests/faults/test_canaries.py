"""Values that must not be stored, in every form, searched in every store after each run."""

from uuid import uuid4

import pytest

from tests.faults.crashes import report, row
from tests.support.canaries import KEPT, found, inputs, run_all, run_in_system
from tests.support.every_saver import KINDS, stored_in


@pytest.fixture
def beside(tmp_path_factory):
    """A folder for caches and logs, which is not the store's."""
    return tmp_path_factory.mktemp("beside")


@pytest.mark.parametrize("mode", ["sync", "async", "exit"])
@pytest.mark.parametrize("kind", KINDS)
async def test_no_form_of_a_secret_is_stored(kind, mode, request, anyio_backend, tmp_path):
    """
    Every form of an input, in every mode, on every saver; then a run whose events are stored.
    """
    word, folder = f"canary-{uuid4().hex}", request.getfixturevalue("beside")
    given = inputs(word)
    with stored_in(request, kind, tmp_path) as store:
        await run_all(store, folder, word, mode, given)
        async with store.again() as saver:
            events = await run_in_system(saver, word)
            if not store.on_disk:
                await saver.abackup(folder / "system.db")
        leaks = found(store, folder, word, KEPT)

    line = row("untracked", kind, mode, anyio_backend, len(given), leaks.count(word))
    report(request.config, "canaries", line)
    assert word not in repr(events)
    assert leaks == [KEPT]
