"""The stored part of a call's metadata."""

import pytest

from actorgraph.values.configs import REDACTED, names_a_secret, stored_metadata


@pytest.mark.langgraph("L14")
def test_declared_entries_are_stored_as_they_are():
    """
    Text, numbers and nested values stay what they are, whatever their depth.
    """
    declared = {"user": "ada", "n": 1, "on": True, "nested": {"list": [1, {"a": 2}]}}

    assert stored_metadata(declared) == declared


@pytest.mark.langgraph("L14", "F-E3")
def test_names_of_our_own_are_left_out():
    """
    A caller can't overwrite `source` or `step`; names with `__` are never stored.
    """
    given = {"source": "x", "step": 7, "parents": {}, "writes": 1, "__internal": 1, "mine": 1}

    assert stored_metadata(given) == {"mine": 1}


def test_text_under_the_name_of_a_secret_is_replaced():
    """
    At any depth, also in lists; numbers such as `max_tokens` stay.
    """
    given = {
        "api_key": "canary",
        "auth": {"bearer": "canary", "n": 1},
        "deep": {"password": "canary", "hosts": ["a"]},
        "tokens": ["canary"],
        "max_tokens": 100,
    }

    assert stored_metadata(given) == {
        "api_key": REDACTED,
        "auth": {"bearer": REDACTED, "n": 1},
        "deep": {"password": REDACTED, "hosts": ["a"]},
        "tokens": REDACTED,
        "max_tokens": 100,
    }
    assert given["api_key"] == "canary"


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        *[(n, True) for n in ("apiKey", "API_KEY", "x-auth-token", "DbPassword", "client.secret")],
        *[(n, False) for n in ("monkey", "author", "tokenizer", "keyboard", "secretary", "user")],
    ],
)
def test_whole_words_mark_a_secret(name, secret):
    """
    "apiKey" names one, "monkey" and "author" don't.
    """
    assert names_a_secret(name) is secret
