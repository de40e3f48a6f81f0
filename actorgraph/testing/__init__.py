"""Test doubles for programs that use actorgraph: savers that fail, or wait, on demand."""

from actorgraph.testing.faults import (
    FaultPlan,
    FaultySaver,
    When,
    failing_connection,
    sqlite_failure,
)
from actorgraph.testing.gated import GatedSaver
from actorgraph.testing.sessions import session_saver_checks
from actorgraph.testing.stores import store_checks

__all__ = [
    "FaultPlan",
    "FaultySaver",
    "GatedSaver",
    "When",
    "failing_connection",
    "session_saver_checks",
    "sqlite_failure",
    "store_checks",
]
