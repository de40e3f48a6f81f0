"""Limits of one client, as numbers."""

import pytest

from actorgraph.web.http.problems import TooMuch
from actorgraph.web.http.request_limits import (
    ClientSlots,
    Limits,
    Rates,
    check_values,
    retry_after,
)


class TestRates:
    def test_a_burst_then_the_rate(self):
        """
        A client may use its burst at once, and then so many requests a second.
        """
        rates = Rates(Limits(requests_per_s=2, burst=3))

        assert [rates.wait_s("a", 0.0) for _ in range(4)] == [0, 0, 0, 0.5]
        assert rates.wait_s("a", 0.5) == 0
        assert rates.wait_s("a", 0.5) == 0.5

    def test_clients_are_apart(self):
        """
        One client's haste holds up no other one.
        """
        rates = Rates(Limits(requests_per_s=1, burst=1))

        assert [rates.wait_s(client, 0.0) for client in "aab"] == [0, 1, 0]

    def test_few_clients_are_remembered(self):
        """
        Its memory is bounded: the client that was silent longest is forgotten.
        """
        rates = Rates(Limits(requests_per_s=1, burst=1, clients=2))
        for client in "abc":
            rates.wait_s(client, 0.0)

        assert rates.wait_s("c", 0.0) == 1
        assert rates.wait_s("a", 0.0) == 0

    def test_without_a_rate_no_client_waits(self):
        """
        By default no client is held up.
        """
        rates = Rates(Limits())

        assert {rates.wait_s("a", 0.0) for _ in range(100)} == {0}

    def test_a_request_may_count_as_several(self):
        """
        A heavier request takes so many tokens, or none; more than the burst are never there.
        """
        rates = Rates(Limits(requests_per_s=2, burst=10))

        assert [rates.wait_s("a", 0.0, weight) for weight in (8, 4, 2, 1)] == [0, 1, 0, 0.5]
        assert rates.wait_s("a", 100.0, 11) > 0
        assert rates.wait_s("a", 100.0, 10) == 0

    @pytest.mark.parametrize(("seconds", "text"), [(0.01, "1"), (1.2, "2"), (30, "30")])
    def test_the_header_is_in_whole_seconds(self, seconds, text):
        """
        `Retry-After` is rounded up, and never 0.
        """
        assert retry_after(seconds) == text


class TestBodies:
    def test_depth_has_a_bound(self):
        """
        A body as deep as allowed is taken, a deeper one is not.
        """
        limits = Limits(depth=3)

        check_values([[[1]]], limits)
        with pytest.raises(TooMuch, match="the body is nested more than 3 levels deep"):
            check_values({"a": [{"b": [1]}]}, limits)

    def test_values_have_a_bound(self):
        """
        A body may hold so many values, at any depth.
        """
        limits = Limits(values=3)

        check_values([1, [2]], limits)
        with pytest.raises(TooMuch, match="the body has more than 3 values"):
            check_values([1, [2, 3]], limits)


class TestSlots:
    def test_one_clients_streams_are_counted_apart(self):
        """
        A client that has all of its slots gets none more, another one does; given back, it is free.
        """
        slots = ClientSlots(1)

        assert [slots.try_acquire(client) for client in "aab"] == [True, False, True]
        slots.release("a")
        assert slots.try_acquire("a")
        slots.release("a")
        slots.release("b")
        assert slots.taken == {}
