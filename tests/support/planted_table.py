"""The table of planted faults: python -m tests.support.planted_table

Each row is a fault of a saver, store or link of a dispatcher, and the public check that finds it.
The tests plant each one in every kind of storage or engine:
tests/savers/test_conformance_checks.py, tests/stores/test_planted_faults.py,
tests/dispatch/test_planted_faults.py.
"""

from tests.dispatch.faulty_links import FAULTS as LINKS
from tests.dispatch.places import KINDS
from tests.savers.planted_faults import FAULTS as SAVERS
from tests.stores.test_planted_faults import FAULTS as STORES

PLANTED = {
    "savers": ("memory, SQLite, PostgreSQL, JSON lines", SAVERS, "check_saver"),
    "stores": ("memory, SQLite, PostgreSQL", STORES, "store_checks"),
    "dispatchers": (", ".join(KINDS), LINKS, "dispatcher_checks"),
}
"""Kind -> where faults are planted, the faults with their checks, and the list of the checks."""


def lines():
    """The table, and its sums."""
    for kind, (places, faults, list_name) in PLANTED.items():
        yield f"{kind} ({places}): {len(faults)} faults, found by {list_name}"
        yield from (f"  {name:<36}{check}" for name, (_, check) in faults.items())
    yield f"{sum(len(faults) for _, faults, _ in PLANTED.values())} faults"


if __name__ == "__main__":
    print("\n".join(lines()))
