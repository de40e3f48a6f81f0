"""The contract of savers, as checks that anyone can run on a saver of their own.

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
from actorgraph.testing.conformance.bench import MakeSaver, Place
from actorgraph.testing.conformance.checks import (
    CHECKS,
    Check,
    ContractBrokenError,
    NotOfferedError,
)
from actorgraph.testing.conformance.running import CheckResult, SaverReport, check_saver

_GROUPS = (basic, listing, pages, removing, together, hostile, claims, values, failing)

__all__ = [
    "CHECKS",
    "Check",
    "ContractBrokenError",
    "MakeSaver",
    "NotOfferedError",
    "Place",
    "SaverReport",
    "CheckResult",
    "check_saver",
]
