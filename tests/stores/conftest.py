"""A place for items of each kind."""

import pytest

from tests.support.every_store import KINDS, Shelf


@pytest.fixture(params=KINDS)
def shelf(request, tmp_path):
    """A place for items; the test runs once per kind."""
    if request.param == "postgres":
        server = request.getfixturevalue("postgres")
        with server.borrow("memory") as schema:
            made = Shelf(request.param, tmp_path, server.url, schema)
            yield made
            made.close()
        return
    made = Shelf(request.param, tmp_path)
    yield made
    made.close()


@pytest.fixture
def store(shelf):
    """An empty store; the test runs once per kind."""
    return shelf.open()
