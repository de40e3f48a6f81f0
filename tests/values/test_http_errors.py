"""Texts of errors of HTTP clients."""

import pytest

from actorgraph.values.http_errors import connection_text


def behind(error: BaseException, cause: BaseException | None) -> BaseException:
    """The error, raised from another one."""
    error.__cause__ = cause
    return error


def in_a_circle() -> BaseException:
    """An error that is its own cause, two errors on."""
    first, second = OSError(), OSError()
    first.__cause__, second.__cause__ = second, first
    return first


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (OSError("no route"), "OSError: no route"),
        (behind(OSError("no route"), ValueError("why")), "OSError: no route"),
        (behind(OSError(), ValueError("why")), "OSError: ValueError: why"),
        (behind(OSError(), behind(OSError(), ValueError("why"))), "OSError: ValueError: why"),
        (OSError(), "OSError"),
        (in_a_circle(), "OSError"),
    ],
)
def test_an_error_without_a_text_has_that_of_its_cause(error, text):
    """
    An error without a text is explained by the first error behind it that has one.
    """
    assert connection_text(error) == text
