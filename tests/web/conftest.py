"""A schema of PostgreSQL, for tests of servers over one."""

from tests.savers.conftest import lent

__all__ = ["lent"]
