"""For tests: savers that fail or wait on demand; the contracts of savers and stores as checks."""

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
from actorgraph.testing.session_checks import session_saver_checks
from actorgraph.testing.store_checks import store_checks

__all__ = [
    "CHECKS",
    "DispatchPlace",
    "FaultPlan",
    "FaultySaver",
    "GatedSaver",
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
