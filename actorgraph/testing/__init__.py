"""For tests: savers that fail or wait on demand, a clock that a test moves; contracts as checks."""

from actorgraph.testing.conformance import CHECKS, check_saver
from actorgraph.testing.dispatcher_checks import DispatchPlace, dispatcher_checks
from actorgraph.testing.faults import (
    FaultPlan,
    FaultySaver,
    When,
    failing_connection,
    failing_files,
    sqlite_failure,
)
from actorgraph.testing.gated_saver import GatedSaver
from actorgraph.testing.killed_worker import check_killed_worker
from actorgraph.testing.manual_clock import ManualClock
from actorgraph.testing.session_checks import session_saver_checks
from actorgraph.testing.store_checks import store_checks

__all__ = [
    "CHECKS",
    "DispatchPlace",
    "FaultPlan",
    "FaultySaver",
    "GatedSaver",
    "ManualClock",
    "When",
    "check_killed_worker",
    "check_saver",
    "dispatcher_checks",
    "failing_connection",
    "failing_files",
    "session_saver_checks",
    "sqlite_failure",
    "store_checks",
]
