"""The PostgreSQL server of the tests, with a database per run of a workload."""

from typing import Any


class ServerMissing(Exception):
    """The server can't be started; the text says why."""


class Server:
    """Starts at the first use, and ends with the process."""

    def __init__(self) -> None:
        self._started: Any = None
        self._made = 0

    def new_database(self) -> str:
        """The address of an empty database.

        Raises: ServerMissing, if this machine has no server.
        """
        try:
            if self._started is None:
                from tests.support.postgres_server import started

                self._started = started()
            self._made += 1
            name = f"bench_{self._made}"
            with self._started.connect() as connection:
                connection.execute(f"CREATE DATABASE {name}")
        except Exception as error:
            raise ServerMissing(repr(error)) from error
        address, question, parameters = self._started.url.partition("?")
        return address.rpartition("/")[0] + f"/{name}" + question + parameters
