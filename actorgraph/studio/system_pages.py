"""The page of the system: its load, storage, leases and workers, with a short history."""

from collections.abc import Sequence
from typing import Any

import msgspec
from markupsafe import Markup
from starlette.responses import Response

from actorgraph.internals import SAMPLE_S, StatisticsSample
from actorgraph.studio.charts import chart
from actorgraph.studio.page_calls import Handler, StudioCall, drawn
from actorgraph.systems import SystemOwner

COLUMNS = ("System", "Lease", "Runs", "Taken over")


async def system(call: StudioCall) -> Response:
    """Show the system."""
    await call.must("studio.system.read")
    return call.page("system.html", title="System", **await _figures(call))


async def figures(call: StudioCall) -> Response:
    """Show the figures alone, to replace them in the page."""
    await call.must("studio.system.read")
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
    return {
        "charts": _charts(call.source.history()),
        "tables": tables,
        "worker_columns": COLUMNS,
        "workers": [_owner(one) for one in await call.source.owners()],
    }


def _charts(history: Sequence[StatisticsSample]) -> list[Markup]:
    found = [
        ("Active runs", [one.active for one in history], ""),
        ("Waiting runs", [one.backlog for one in history], ""),
        ("Supersteps a second", [one.supersteps / SAMPLE_S for one in history], ""),
        ("Runs ended a second", [one.ended / SAMPLE_S for one in history], ""),
        ("Errors", [one.errors for one in history], ""),
        ("Commit latency", [(one.commit_s or 0) * 1000 for one in history], " ms"),
        ("Commits a second", [one.commits / SAMPLE_S for one in history], ""),
        ("Unsaved bytes", [one.unsaved_bytes for one in history], " B"),
    ]
    return [drawn(chart(*one)) for one in found]


def _owner(one: SystemOwner) -> tuple[str, str, str, str]:
    if one.lease_s is None:
        lease = "given up"
    else:
        lease = f"{one.lease_s:.1f} s" if one.alive else f"ended {-one.lease_s:.0f} s ago"
    name = f"{one.id} (this one)" if one.is_this else one.id
    return name, lease, str(one.runs), str(one.taken_over)


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
    await call.must("studio.system.drain")
    found.spawn(found.drain)
    return call.back("/system")


PAGES: tuple[tuple[str, str, Handler], ...] = (
    ("GET", "/system", system),
    ("GET", "/system/figures", figures),
    ("POST", "/system/drain", drain),
)
