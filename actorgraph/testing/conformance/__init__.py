"""The contract of savers, as checks for a saver of your own.

From a script: `report = await check_saver(place)`. From pytest, one test per check:

    @pytest.mark.parametrize("check", CHECKS, ids=str)
    async def test_contract(check):
        if left_out := await check(place):
            pytest.skip(left_out)
"""

from actorgraph.testing.conformance import (
    basic,
    claims,
    failing,
    hostile,
    listing,
    pages,
    removing,
    together,
    values,
)
from actorgraph.testing.conformance.bench import MakeSaver, NotOfferedError, Place
from actorgraph.testing.conformance.checks import (
    CHECKS,
    Check,
    ContractBrokenError,
)
from actorgraph.testing.conformance.running import CheckResult, SaverReport, check_saver

_GROUPS = (basic, listing, pages, removing, together, hostile, claims, values, failing)

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
