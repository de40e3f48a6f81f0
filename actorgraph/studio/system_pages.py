"""The page of the system: its load, storage, leases and workers, with a short history."""

from collections.abc import Sequence
from typing import Any

import msgspec
from markupsafe import Markup
from starlette.responses import Response

from actorgraph.internals import SAMPLE_S, StatisticsSample
from actorgraph.studio.charts import chart
from actorgraph.studio.operator_figures import CHARTS, Figure, figures_of
from actorgraph.studio.page_calls import Handler, StudioCall, drawn
from actorgraph.systems import SystemOwner

COLUMNS = ("System", "Lease", "Runs", "Taken over")


class ShownChart(msgspec.Struct, frozen=True):
    """A chart with its explanation; see `operator_figures.Chart`."""

    picture: Markup
    meaning: str
    worry: str
    rule: str


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
        return {"facts": (), "charts": [], "tables": [], "workers": [], "worker_columns": []}
    found = now.statistics()
    owners = await call.source.owners()
    facts: tuple[Figure, ...] = figures_of(found, await now.thread_counter.look(), owners)
    statistics = msgspec.to_builtins(found)
    persistence = statistics.pop("persistence") or {}
    dispatch = statistics.pop("dispatch", None) or {}
    graphs = statistics.pop("graphs", {})
    tables = [("Runs since the start", _pairs(statistics)), ("Storage", _pairs(persistence))]
    if dispatch:
        tables.append(("Dispatch", _pairs(dispatch)))
    tables += [(f"Graph {name}", _graph_pairs(one)) for name, one in graphs.items()]
    return {
        "facts": facts,
        "charts": _charts(call.source.history()),
        "tables": tables,
        "worker_columns": COLUMNS,
        "workers": [_owner(one) for one in owners],
        "draining": found.draining,
    }


def _charts(history: Sequence[StatisticsSample]) -> list[ShownChart]:
    span_s = SAMPLE_S * max(len(history) - 1, 0)
    return [
        ShownChart(
            drawn(chart(one.title, [one.read(at) for at in history], one.unit, span_s=span_s)),
            one.meaning,
            one.worry,
            one.rule,
        )
        for one in CHARTS
    ]


def _owner(one: SystemOwner) -> tuple[str, str, str, str]:
    if one.lease_s is None:
        lease = "given up"
    else:
        lease = f"{one.lease_s:.1f} s" if one.alive else f"ended {-one.lease_s:.0f} s ago"
    name = f"{one.id} (this one)" if one.is_this else one.id
    return name, lease, str(one.runs), str(one.taken_over)


def _graph_pairs(figures: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the runs of a graph by status, and the tasks of its nodes."""
    nodes = [
        (name, f"{one['done']} done, {one['errors']} failed, {one['seconds']:.3g} s")
        for name, one in figures.get("nodes", {}).items()
    ]
    return [*_pairs({"runs": figures.get("runs", {})}), *nodes]


def _pairs(figures: dict[str, Any]) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for name, value in figures.items():
        if isinstance(value, dict):
            if isinstance(value.get("counts"), list | tuple):  # a distribution
                continue
            text = ", ".join(f"{key} {count}" for key, count in value.items()) or "none"
        else:
            text = _text(value)
        found.append((name.replace("_", " "), text))
    return found


def _text(value: Any) -> str:
    if value is None or value == "":
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


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
