"""`actorgraph top`: runs, queues, systems and steps, live."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from actorgraph.cli.command_group import LOOK, AsJson, Database, group
from actorgraph.cli.kept_data import Figures

if TYPE_CHECKING:
    from rich.console import Console

SAMPLE_S = 1.0
"""Seconds between the two fetches of metrics that a single picture needs for its rate."""


@group.command("top", rich_help_panel=LOOK)
def top(
    place: Annotated[
        str | None, typer.Argument(help="The database, or http://.../metrics of a server.")
    ] = None,
    *,
    db: Database = None,
    once: Annotated[bool, typer.Option("--once", help="Print one picture and end.")] = False,
    every: Annotated[float, typer.Option(min=0.2, help="Seconds between pictures.")] = 2.0,
    as_json: AsJson = False,
) -> None:
    """Show runs, queues, leases, steps per second and lag, until Ctrl-C.

    --json and --once print one picture.

    Example: actorgraph top runs.db
    """
    import anyio

    from actorgraph.cli.output import show
    from actorgraph.cli.places import database_named

    name = database_named(place or db)
    if once or as_json:
        show(anyio.run(_first, name), draw, as_json=as_json)
    else:
        anyio.run(_live, name, every)


async def _first(place: str) -> Figures:
    found: list[Figures] = []

    def take(picture: Figures) -> bool:
        found.append(picture)
        return picture.steps_per_s is None

    await _watch(place, SAMPLE_S, take)
    return found[-1]


async def _live(place: str, every: float) -> None:
    from rich.live import Live

    from actorgraph.cli.output import console

    with Live(console=console(), auto_refresh=False, transient=True) as live:

        def update(picture: Figures) -> bool:
            live.update(_drawn(picture), refresh=True)
            return True

        await _watch(place, every, update)


async def _watch(place: str, every: float, goes_on: Callable[[Figures], bool]) -> None:
    """Read figures again and again, until `goes_on` returns False."""
    import anyio

    from actorgraph.cli.places import open_saver
    from actorgraph.cli.system_figures_reader import (
        database_figures,
        fetch_samples,
        is_metrics,
        metrics_figures,
    )

    if not is_metrics(place):
        async with open_saver(place) as saver:
            while goes_on(await database_figures(place, saver)):  # noqa: ASYNC110 - a clock
                await anyio.sleep(every)
        return
    before, since = None, 0.0
    while True:
        now, at = await anyio.to_thread.run_sync(fetch_samples, place), time.monotonic()
        if not goes_on(metrics_figures(place, now, before, at - since)):
            return
        before, since = now, at
        await anyio.sleep(every)


def draw(out: "Console", found: Figures) -> None:
    """Draw the figures."""
    out.print(_drawn(found))


def _drawn(found: Figures) -> Any:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    rate = "-" if found.steps_per_s is None else f"{found.steps_per_s:.1f}"
    lag = "-" if found.lag_s is None else f"{found.lag_s:.1f} s"
    figures = Table("running", "queued", "steps/s", "lag", box=None, pad_edge=False)
    figures.add_row(str(found.running), str(found.queued), rate, lag)
    parts: list[Any] = [Text(found.place, style="bold"), figures]
    if found.graphs or found.ended:
        title = "graph" if found.graphs else "ended"
        counts = Table(title, "runs", box=None, pad_edge=False)
        for name, count in sorted((found.graphs or found.ended).items()):
            counts.add_row(name, str(count))
        parts += ["", counts]
    if found.systems:
        systems = Table("system", "lease", "runs", box=None, pad_edge=False)
        for row in found.systems:
            systems.add_row(row.owner, _lease(row.lease_s), str(row.runs))
        parts += ["", systems]
    return Group(*parts)


def _lease(lease_s: float | None) -> str:
    if lease_s is None:
        return "given up"
    return f"{lease_s:.0f} s" if lease_s > 0 else f"ended {-lease_s:.0f} s ago"
