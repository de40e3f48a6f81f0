"""The page of the system: its load, storage, leases and workers, with a short history."""

from collections.abc import Sequence
from typing import Any

import msgspec
from markupsafe import Markup
from starlette.responses import Response

from actorgraph.studio.charts import chart
from actorgraph.studio.pages import Handler, StudioCall, drawn

CHARTS = (
    ("Active runs", "active", ""),
    ("Queued runs", "queued", ""),
    ("Supersteps a second", "supersteps_per_s", ""),
    ("Commit latency", "commit_ms", " ms"),
    ("Unsaved bytes", "unsaved_bytes", " B"),
    ("Errors a second", "errors_per_s", ""),
)


async def system(call: StudioCall) -> Response:
    """Show the system."""
    await call.may("studio.system.read")
    return call.page("system.html", title="System", **await _figures(call))


async def figures(call: StudioCall) -> Response:
    """Show the figures alone, to replace them in the page."""
    await call.may("studio.system.read")
    return call.page("figures.html", **await _figures(call))


async def _figures(call: StudioCall) -> dict[str, Any]:
    now = call.source.system
    if now is None:
        return {"charts": [], "tables": [], "workers": [], "worker_columns": []}
    statistics = msgspec.to_builtins(now.statistics())
    persistence = statistics.pop("persistence") or {}
    dispatch = statistics.pop("dispatch", None) or {}
    tables = [("Runs", _pairs(statistics)), ("Storage", _pairs(persistence))]
    if dispatch:
        tables.append(("Dispatch", _pairs(dispatch)))
    columns, workers = await call.source.workers()
    history = await call.source.history()
    return {
        "charts": _charts(history),
        "tables": tables,
        "worker_columns": columns,
        "workers": workers,
    }


def _charts(history: Sequence[Any]) -> list[Markup]:
    return [
        drawn(chart(title, [getattr(one, name) for one in history], unit))
        for title, name, unit in CHARTS
    ]


def _pairs(figures: dict[str, Any]) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for name, value in figures.items():
        if isinstance(value, dict):
            text = ", ".join(f"{key} {count}" for key, count in value.items()) or "none"
        else:
            text = "none" if value is None or value == "" else str(value)
        found.append((name.replace("_", " "), text))
    return found


async def drain(call: StudioCall) -> Response:
    """Let active runs finish their superstep, and accept no more."""
    found = call.must_write()
    await call.may("studio.system.drain")
    found.spawn(found.drain)
    return call.back("/system")


PAGES: tuple[tuple[str, str, Handler], ...] = (
    ("GET", "/system", system),
    ("GET", "/system/figures", figures),
    ("POST", "/system/drain", drain),
)
