"""Short texts of values: bounded, never raising, without secrets."""

import dataclasses
import time

import pydantic
import pytest

from actorgraph.errors.excerpts import TEXT_MAX, address_text, shown, size_text

LARGE = {
    "text": "x" * 1_000_000,
    "list": list(range(100_000)),
    "dict": dict.fromkeys(range(10_000)),
}


class Raises:
    """Its repr and its length raise."""

    def __repr__(self):
        raise RuntimeError

    def __len__(self):
        raise RuntimeError


@dataclasses.dataclass
class Login:
    """A dataclass with a hidden field."""

    user: str
    password: str = dataclasses.field(repr=False)


class Account(pydantic.BaseModel):
    """A model with a hidden field, and one that may be left out."""

    user: str
    key: pydantic.SecretStr
    token: str = pydantic.Field(repr=False)
    plan: str = "free"


class TestValues:
    @pytest.mark.parametrize(
        ("value", "text"),
        [
            (3, "3"),
            ("a", "'a'"),
            (["a", (1,), {"b": {2}}], "['a', (1,), {'b': {2}}]"),
            (b"", "b''"),
            (frozenset({1}), "frozenset({1})"),
            (Raises(), "<Raises object>"),
            (object(), "<object object>"),
            (lambda: None, "<function <lambda>>"),
            (Raises, "<class 'Raises'>"),
            (Login("ada", "secret"), "Login(user='ada')"),
            (
                Account(user="ada", key="secret", token="secret"),  # noqa: S106 - a made-up one
                "Account(user='ada', key=SecretStr('**********'), plan='free')",
            ),
            pytest.param(10**5000, "<int of 16610 bits>", id="a large integer"),
        ],
    )
    def test_a_short_one_is_shown_whole(self, value, text):
        """
        It looks like its repr; an address in memory and a hidden field are left out.
        """
        assert shown(value) == text

    @pytest.mark.parametrize("value", [LARGE, *LARGE.values(), [LARGE] * 1000])
    def test_a_large_one_is_cut_before_it_is_read(self, value):
        """
        A value of a megabyte costs less than a millisecond, and is one line of bounded length.
        """
        text, times = "", list[float]()
        for _ in range(5):
            began = time.perf_counter()
            text = shown(value) + size_text(value)
            times.append(time.perf_counter() - began)

        assert min(times) < 0.001
        assert len(text) <= TEXT_MAX + 20
        assert "\n" not in text

    def test_a_circle_ends(self):
        """
        A value that contains itself is cut at a depth.
        """
        circle = []
        circle.append(circle)

        assert shown(circle) == "[[[[...]]]]"


class TestAddresses:
    @pytest.mark.parametrize(
        ("address", "text"),
        [
            (
                "postgresql://ada:secret@db:5432/runs?sslmode=require",
                "postgresql://ada@db:5432/runs",
            ),
            ("postgres://db/runs", "postgres://db/runs"),
            ("postgresql://ada:secret@a:1,b:2/runs", "postgresql://ada@a:1,b:2/runs"),
            ("host=db user=ada password=secret dbname=runs", "host=db user=ada dbname=runs"),
            ("postgresql://ada:se/cret@db/runs", "postgresql"),
            ("postgresql://ada:se?cret@db/runs", "postgresql"),
            ("postgresql://ada:se@cret@db/runs", "postgresql"),
            ("postgresql://ada:secret", "postgresql"),
            ("postgresql://db/runs?password=secret", "postgresql://db/runs"),
            ("postgresql://db/runs?password=a@secret", "postgresql"),
            ("host=db password='x host=secret'", "postgresql"),
            ("host=db password = secret", "host=db"),
        ],
    )
    def test_a_password_is_never_shown(self, address, text):
        """
        Scheme, user, hosts and database are shown where they can be distinguished from a password.
        """
        assert address_text(address) == text
        assert "secret" not in address_text(address)
