"""Running the machine over one kind of saver, on one event loop."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from anyio.from_thread import start_blocking_portal
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from actorgraph import PostgresSaver, SqliteSaver
from tests.savers.machine.machine import SaverMachine
from tests.savers.machine.planted import Planted
from tests.support.every_saver import Store
from tests.support.postgres_server import PostgresServer

Make = Callable[[Path], Any]


def maker(store: Store, postgres: PostgresServer | None) -> tuple[Make, Callable[[], None]]:
    """Makes a saver over the store of a folder; and what empties a store without a folder."""
    if store.kind == "sqlite":  # what a crash of the process leaves needs no fsync
        return lambda folder: SqliteSaver(folder / "runs.db", synchronous="OFF"), lambda: None
    if postgres is not None:
        empty = lambda: postgres.empty(store.schema)  # noqa: E731
        return lambda _: PostgresSaver(store.url, schema=store.schema), empty
    stores: dict[Path, Store] = {}

    def make(folder: Path) -> Any:
        return stores.setdefault(folder, Store(store.kind, folder)).again()

    return make, stores.clear


def run_machine(
    store: Store,
    backend: str,
    folder: Path,
    *,
    sequences: int,
    steps: int,
    postgres: PostgresServer | None = None,
    bug: type[Planted] | None = None,
    shuffled: bool = False,
    stops: bool = False,
) -> int:
    """Try sequences of steps; raises what the first difference raised.

    Args:
        store: says the kind; of PostgreSQL also the schema.
        bug: one to put around the saver.
        shuffled: whether other sequences each time.
        stops: whether the first difference will do, without a shorter way to it.
    Returns: how many steps were taken.
    """
    numbers = itertools.count()
    make, empty = maker(store, postgres)
    options = settings(
        max_examples=sequences,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        suppress_health_check=[*HealthCheck],
        phases=[Phase.generate] if bug or stops else [Phase.generate, Phase.shrink],
        derandomize=not shuffled,
        report_multiple_bugs=False,
    )
    taken = itertools.count()
    with start_blocking_portal(backend) as portal:

        class Counted(SaverMachine):
            def check_invariants(self, *arguments: Any, **options: Any) -> Any:
                next(taken)
                return super().check_invariants(*arguments, **options)

        def machine() -> SaverMachine:
            place = folder / f"{next(numbers)}" / "store"
            place.mkdir(parents=True)
            empty()
            return Counted(portal, make, place, bug)

        run_state_machine_as_test(machine, settings=options)
    return next(taken)
