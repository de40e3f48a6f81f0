"""Spares pytest-xdist two thirds of its messages: set-ups and tear-downs that have passed.

A test process reports three parts of each test to the first process, which shows and counts only
the call, and what failed. With `--durations` or a report in XML all of them are sent.
"""

from typing import Any

import pytest

NEED_ALL = ("durations", "xmlpath", "setupshow", "report_log")
"""Options that show the other parts."""


def send_few_reports(config: pytest.Config) -> None:
    """Send no passed set-up and tear-down, in a process of pytest-xdist."""
    if any(config.getoption(name, None) for name in NEED_ALL):
        return
    for plugin in config.pluginmanager.get_plugins():
        if type(plugin).__name__ == "WorkerInteractor":
            _spare(plugin)


def _spare(interactor: Any) -> None:
    send = interactor.sendevent

    def sendevent(name: str, **given: Any) -> None:
        data = given.get("data", {})
        if name != "testreport" or data["when"] == "call" or data["outcome"] != "passed":
            send(name, **given)

    interactor.sendevent = sendevent
