"""Ids of threads, made and taken apart."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actorgraph import InvalidConfigError, new_thread_id, parse_thread_id, thread_id_for
from actorgraph.api.config import address_of
from tests.support.source_files import ROOT

PARTS = ["a", "b", "a:b", "b:c", "c", "a%3Ab", "%", ":", "v2", "a:v2", "Ünï", "\n", "a b", "%25"]
text = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)


@pytest.mark.promise("S192")
def test_fresh_ids():
    """
    Ten thousand ids are all different, and thread ids.
    """
    made = [new_thread_id() for _ in range(10_000)]

    assert len(set(made)) == 10_000
    assert address_of({"configurable": {"thread_id": made[0]}}, needs_thread=True).thread_id


@pytest.mark.promise("S193", "S194")
def test_different_parts_make_different_ids():
    """
    No two different combinations of user, session and version share an id.
    """
    given_ = list(product(PARTS, PARTS, [None, 0, 2, 10]))
    made = {thread_id_for(user=u, session=s, version=v) for u, s, v in given_}

    assert len(made) == len(given_)
    assert thread_id_for(user="u", session="s") == "u:s"
    assert thread_id_for(user="u", session="s", version=2) == "u:s:v2"


@pytest.mark.promise("S193", "S194")
@pytest.mark.parametrize("examples", [40, pytest.param(400, marks=pytest.mark.long)])
def test_a_made_id_can_be_parsed(examples):
    """
    The parts come back as they were, and the id is one that a config takes.
    """
    versions = st.none() | st.integers(0, 10**9 - 1)

    settings(max_examples=examples)(given(text, text, versions)(make_and_parse))()


def make_and_parse(user, session, version):
    try:
        made = thread_id_for(user=user, session=session, version=version)
    except InvalidConfigError:
        assert len((user + session).encode()) * 3 > 220
        return

    assert parse_thread_id(made) == (user, session, version)
    assert address_of({"configurable": {"thread_id": made}}, needs_thread=True).thread_id == made


@pytest.mark.parametrize(
    "foreign", ["a", "a:", ":b", "a:b:c", "a:b:v02", "a:b:v2:x", "a%:b", "a%3:b", "a%41:b", "%3a:b"]
)
def test_other_ids_are_not_taken_apart(foreign):
    """
    An id that the function doesn't make has no parts.
    """
    assert parse_thread_id(foreign) is None


@pytest.mark.parametrize(
    "parts",
    [
        {"user": "", "session": "s"},
        {"user": "u", "session": 7},
        {"user": "\ud800", "session": "s"},
        {"user": "u" * 300, "session": "s"},
        {"user": "u", "session": "s", "version": -1},
        {"user": "u", "session": "s", "version": True},
    ],
)
def test_parts_that_are_refused(parts):
    """
    Parts that are empty, too long or not text are refused where they are given.
    """
    with pytest.raises(InvalidConfigError):
        thread_id_for(**parts)


@pytest.mark.promise("S195")
def test_the_format_is_documented():
    """
    The page of operations says what the parts of an id are; its examples run with all the others.
    """
    page = (ROOT / "docs" / "operations.md").read_text()

    assert "`user:session`, or `user:session:vN`" in page
    assert 'parse_thread_id(thread) == ("ada", "support", 2)' in page
