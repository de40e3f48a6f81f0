"""Logs take no part in a run, whatever they do."""

import logging
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

import anyio
import pytest
import structlog

from actorgraph import InMemorySaver
from actorgraph.runtime import log
from tests.support.gates import PATIENCE_S
from tests.support.graphs import ab, at
from tests.support.structlog_setup import configured

__all__ = ["configured"]


def broken(*_):
    """A processor that fails."""
    raise LookupError


class TestFaults:
    async def test_a_processor_that_fails_fails_no_run(self, configured, capfd):
        """
        An error of the application's log is written to standard error, and the run goes on.
        """
        structlog.configure(processors=[broken])

        with anyio.fail_after(PATIENCE_S):
            result = await ab(InMemorySaver()).ainvoke({}, at())

        assert result["bar"] == ["a", "b"]
        assert "run.left was not logged: LookupError()" in capfd.readouterr().err

    @pytest.mark.parametrize("name", ["structlog", "opentelemetry.trace"])
    async def test_a_package_that_another_thread_imports_just_now(self, name, monkeypatch):
        """
        A half imported package is one that is not there yet.
        """
        half = ModuleType(name)
        half.__spec__ = ModuleSpec(name, None)
        half.__spec__._initializing = True  # noqa: SLF001 - as the interpreter does it
        monkeypatch.setitem(sys.modules, name, half)

        result = await ab(InMemorySaver()).ainvoke({}, at())

        assert result["bar"] == ["a", "b"]

    @pytest.mark.parametrize("where", ["structlog", "standard error", "logging"])
    def test_control_characters_are_escaped(self, where, configured, monkeypatch, caplog, capfd):
        """
        A text of a client can't steer the terminal of who reads the log, nor forge a line.
        """
        lines: list[str] = []

        def keep(_logger, _name, fields):
            lines.append(fields["text"])
            raise structlog.DropEvent

        structlog.reset_defaults()
        if where == "structlog":
            structlog.configure(processors=[keep])
        if where == "standard error":
            monkeypatch.setattr(logging.getLogger("actorgraph"), "propagate", False)

        log.event("error", "web.failed", text="a\x1b[2J\x9b2J\nb\x85c")

        written = "".join([*lines, *(one.getMessage() for one in caplog.records)])
        written += capfd.readouterr().err
        assert "2J" in written
        assert [one for one in "\x1b\x9b\x85" if one in written] == []
        assert "\nb" not in written

    @pytest.mark.parametrize("breaks", [True, False])
    def test_without_a_standard_error_nothing_is_written(
        self, breaks, configured, monkeypatch, capfd
    ):
        """
        A log line, or the error of a log, that can't be written to standard error is dropped: it
        is not written to standard output instead.
        """
        structlog.reset_defaults()
        if breaks:
            structlog.configure(processors=[broken])
        monkeypatch.setattr(sys, "stderr", None)

        log.event("error", "x")

        assert capfd.readouterr() == ("", "")
