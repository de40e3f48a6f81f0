"""Methods of LangGraph's client against what is served: nothing is missing without a reason."""

import re
from pathlib import Path

import langgraph_sdk
import pytest

from actorgraph.web.routes import ENDPOINTS

NOT_SERVED: dict[str, str] = {}
"""Paths of the client -> why they aren't served; docs/web.md says so too."""

SOURCES = sorted((Path(langgraph_sdk.__file__).parent / "_async").rglob("*.py"))
PATH = re.compile(r'"(/(?:threads|runs|assistants|store|info|ok)\b[^"?]*)"')
CALL = re.compile(r'http\.(get|post|put|patch|delete)\(\s*f?"(/[^"?]*)"')


def shape(path: str) -> str:
    """A path with its parameters left out."""
    return re.sub(r"\{[^}]*\}", "{}", path)


def test_every_path_of_the_client_is_served_or_listed():
    """
    Each path that the client has is served, or is in the list of what isn't.
    """
    served = {shape(endpoint.path) for endpoint in ENDPOINTS}
    called = {shape(path) for one in SOURCES for path in PATH.findall(one.read_text())}

    assert len(called) > 30
    assert called - served - NOT_SERVED.keys() == set()
    assert served.isdisjoint(NOT_SERVED)


def test_no_path_lacks_a_method():
    """
    Where a path is served, every method that the client uses is.
    """
    served = {(endpoint.method, shape(endpoint.path)) for endpoint in ENDPOINTS}
    paths = {path for _, path in served}
    called = {
        (method.upper(), shape(path))
        for one in SOURCES
        for method, path in CALL.findall(one.read_text())
    }
    lacking = {call for call in called - served if call[1] in paths}

    assert lacking == set()


@pytest.mark.parametrize("words", ["input.inject"])
def test_the_page_says_what_is_missing(words):
    """
    The page about the web names what isn't served.
    """
    page = (Path(__file__).parents[2] / "docs" / "web.md").read_text()

    assert words in page.partition("Not served")[2]
