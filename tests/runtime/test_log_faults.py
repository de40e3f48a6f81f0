"""Logs take no part in a run, whatever they do."""

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

    def test_nobody_hears_what_nobody_reads(self, configured, monkeypatch):
        """
        Without a standard error nothing is written, and nothing raised.
        """
        structlog.configure(processors=[broken])
        monkeypatch.setattr(sys, "stderr", None)

        log.event("error", "x")
