"""Refusals: how often a server has refused what clients ask for, by the limit that was reached.

Counted where an error becomes an answer, so that a refusal is counted once whatever raised it. No
name of a client is kept: one that asks too much can't make the metrics grow.
"""

from collections.abc import Mapping
from typing import get_args

from starlette.responses import Response

from actorgraph.errors import SystemBusyError
from actorgraph.web.http.problems import Limit, OverLimit, response_to


class Refusals:
    """The refusals of one server since it began."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = dict.fromkeys(get_args(Limit), 0)

    @property
    def counts(self) -> Mapping[str, int]:
        """Name of a limit -> refusals; each limit has an entry."""
        return dict(self._counts)

    def count(self, error: BaseException) -> None:
        """Count an error that answers a request or a message; others than refusals are ignored."""
        if isinstance(error, OverLimit | SystemBusyError):
            limit = error.limit if error.limit in self._counts else "runs"
            self._counts[limit] += 1

    def response_to(self, error: Exception) -> Response:
        """Return the response for an error, and count it."""
        self.count(error)
        return response_to(error)
