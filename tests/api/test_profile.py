"""The production profile, and whether savers are durable."""

import pytest

from actorgraph import (
    InMemorySaver,
    InvalidConfigError,
    JsonlSaver,
    LimitedSaver,
    PostgresSaver,
    SqliteSaver,
)
from tests.support.graphs import ab


@pytest.mark.promise("S201")
def test_savers_say_whether_they_are_durable(tmp_path):
    """
    A saver that ends with the process is labelled so, inside of another saver too.
    """
    lasting = [
        SqliteSaver(tmp_path / "runs.db"),
        JsonlSaver(tmp_path / "threads"),
        PostgresSaver("postgresql://nobody"),
    ]
    savers = [InMemorySaver(), SqliteSaver(":memory:"), *lasting]

    assert [saver.durable for saver in savers] == [False, False, True, True, True]
    assert [LimitedSaver(saver).durable for saver in savers] == [False, False, True, True, True]


@pytest.mark.promise("S201")
def test_production_refuses_what_is_not(tmp_path, monkeypatch):
    """
    With the profile a graph is compiled with a durable saver or none.
    """
    monkeypatch.setenv("ACTORGRAPH_PROFILE", "production")
    for saver in (InMemorySaver(), SqliteSaver(":memory:"), LimitedSaver(InMemorySaver())):
        with pytest.raises(InvalidConfigError, match="ACTORGRAPH_PROFILE is 'production'"):
            ab(saver)
    for saver in (SqliteSaver(tmp_path / "runs.db"), JsonlSaver(tmp_path / "threads"), None):
        ab(saver)


@pytest.mark.promise("S201")
def test_an_unknown_profile_is_refused(monkeypatch):
    """
    A misspelt profile doesn't count as none.
    """
    monkeypatch.setenv("ACTORGRAPH_PROFILE", "produktion")
    with pytest.raises(InvalidConfigError, match="did you mean 'production'"):
        ab(InMemorySaver())
    monkeypatch.setenv("ACTORGRAPH_PROFILE", "development")
    ab(InMemorySaver())
