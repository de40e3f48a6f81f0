"""A schema of PostgreSQL, for tests of servers over one."""

from tests.support.postgres_server import lent

__all__ = ["lent"]
