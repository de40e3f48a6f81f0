"""Since when a server can't be reached."""

from contextlib import suppress

import psycopg

from actorgraph.storage.postgres.reach import Reach


def try_it(reach: Reach, error: Exception | None = None) -> None:
    """Try to reach a server, with a result."""
    with suppress(psycopg.Error), reach.tried():
        if error is not None:
            raise error


class TestReach:
    def test_a_server_is_away_from_the_first_failure_on(self):
        """
        Later failures don't begin the time anew.
        """
        reach = Reach()
        before = reach.away_s
        try_it(reach, psycopg.OperationalError("refused"))
        first = reach.away_s
        try_it(reach, psycopg.OperationalError("refused"))

        assert before == 0.0
        assert 0.0 < first < reach.away_s

    def test_a_success_ends_it(self):
        """
        A server that has answered is there.
        """
        reach = Reach()
        try_it(reach, psycopg.OperationalError("refused"))
        try_it(reach)

        assert reach.away_s == 0.0

    def test_a_refused_statement_is_an_answer(self):
        """
        An error that a server reports about a statement doesn't mean that it is away.
        """
        reach = Reach()
        try_it(reach, psycopg.errors.UniqueViolation("twice"))

        assert reach.away_s == 0.0

    def test_an_old_failure_says_nothing(self, monkeypatch):
        """
        A server that was not asked for long may have come back.
        """
        monkeypatch.setattr("actorgraph.storage.postgres.reach.STALE_S", -1.0)
        reach = Reach()
        try_it(reach, psycopg.OperationalError("refused"))

        assert reach.away_s == 0.0
