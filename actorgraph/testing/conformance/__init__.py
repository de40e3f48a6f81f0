"""The contract of savers, as checks for a saver of your own.

From a script: `report = await check_saver(place)`. From pytest, one test per check:

    @pytest.mark.parametrize("check", CHECKS, ids=str)
    async def test_contract(check):
        if left_out := await check(place):
            pytest.skip(left_out)
"""

from actorgraph.testing.conformance import (
    alarm_checks,
    basic,
    claims,
    concurrency,
    crash_checks,
    hostile_ids,
    list_checks,
    lists_and_deltas,
    removals,
    row_checks,
    run_checks,
)
from actorgraph.testing.conformance.harness import (
    CHECKS,
    Check,
    CheckResult,
    ContractBrokenError,
    MakeSaver,
    NotOfferedError,
    Place,
    SaverReport,
    check_saver,
)

# Importing them registers their checks, in this order.
_GROUPS = (
    *(basic, list_checks, removals, concurrency),
    *(hostile_ids, claims, row_checks, run_checks, alarm_checks),
    *(lists_and_deltas, crash_checks),
)

__all__ = [
    "CHECKS",
    "Check",
    "CheckResult",
    "ContractBrokenError",
    "MakeSaver",
    "NotOfferedError",
    "Place",
    "SaverReport",
    "check_saver",
]
