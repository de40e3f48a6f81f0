"""A fixture that configures structlog as an application would."""

from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture
def configured() -> Iterator[None]:
    """A program that has configured structlog; as before afterwards."""
    before = structlog.get_config()
    structlog.configure(processors=[structlog.contextvars.merge_contextvars])
    yield
    structlog.configure(**before)
    structlog.reset_defaults()
