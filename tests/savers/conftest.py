"""Every saver, by the fixtures `store` and `saver`; a schema of PostgreSQL by `lent`."""

from collections.abc import Iterator

import pytest

from tests.postgres import PostgresServer
from tests.stores import saver, store

__all__ = ["saver", "store"]


@pytest.fixture
def lent(postgres: PostgresServer) -> Iterator[str]:
    """A schema whose tables are there, and empty."""
    with postgres.borrow("saver") as name:
        yield name
