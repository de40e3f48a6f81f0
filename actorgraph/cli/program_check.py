"""Check a program's stored threads, and the assistants and crons of its server's store."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from actorgraph.cli.places import open_graphs
from actorgraph.graph import CompiledStateGraph
from actorgraph.internals import SettingsTally, ThreadCheckReport, check_threads
from actorgraph.stores import SqliteStore

Stores = Sequence[tuple[Mapping[str, CompiledStateGraph], Any]]
"""Graphs by name, and the store of the server that has them."""


async def check_program(
    db: str | None,
    graphs: Mapping[str, CompiledStateGraph],
    stores: Stores,
    *,
    prefix: str = "",
) -> ThreadCheckReport:
    """Check the threads of a database, and the assistants and crons of stores.

    Args:
        db: path or address; None for the program's own.
        graphs: those of the program.
        stores: opened as the program would open them.
        prefix: only threads whose id begins with it.
    Raises:
        UsageError: no database is named, and the graphs have no saver.
        StorageError: a store can't be read.
    """
    async with open_graphs(db, graphs) as (over, saver):
        report = await check_threads(over, saver, prefix=prefix)
    tally = SettingsTally()
    try:
        from actorgraph.web.stored_checks import check_stored
    except ImportError:  # without the extra "web" a program serves no assistants
        return report
    for served, store in stores:
        if _is_made(store):
            await check_stored(served, store, tally)
    return tally.added_to(report)


def _is_made(store: Any) -> bool:
    """Whether a store's file exists: to open it would make one."""
    if not isinstance(store, SqliteStore):
        return True
    return store.path == ":memory:" or Path(store.path).exists()
