"""Figures for `actorgraph top`: of a database, or of the `/metrics` of a server."""

import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from actorgraph.cli.exit_codes import CommandError
from actorgraph.cli.kept_data import Figures, ListedSystem
from actorgraph.cli.output import without_password
from actorgraph.internals import (
    OPEN_STATUSES,
    ListCheckpoints,
    ListOwners,
    ListRuns,
    OwnerRow,
    RunRow,
    StoredCheckpoint,
    as_text,
    created_of,
    host_of,
)

STEPS_MAX = 500
"""Newest checkpoints that the rate of steps is counted of."""
STEPS_S = 10.0
"""Seconds over which steps are counted."""
ANSWER_S = 5.0
ANSWER_BYTES_MAX = 4 * 1024 * 1024

Samples = Sequence[tuple[str, Mapping[str, str], float]]


def is_metrics(place: str) -> bool:
    """Whether a place is the address of metrics."""
    return place.startswith(("http://", "https://"))


async def database_figures(place: str, saver: Any) -> Figures:
    """Read the figures of an open saver."""
    host, now = host_of(saver), time.time()
    rows: list[RunRow] = []
    owners: list[OwnerRow] = []
    if getattr(saver, "keeps_runs", False):
        rows = await host.reader.ask(ListRuns(statuses=OPEN_STATUSES))
        owners = await host.reader.ask(ListOwners())
    newest: list[StoredCheckpoint] = await host.reader.ask(
        ListCheckpoints(None, limit=STEPS_MAX, bare=True)
    )
    return Figures(
        place=without_password(place),
        running=sum(row.status == "running" for row in rows),
        queued=sum(row.status == "pending" and row.due <= now * 1e6 for row in rows),
        steps_per_s=rate_of([created_of(point.row.id) / 1e6 for point in newest], now),
        lag_s=lag_of(rows, now),
        graphs=dict(Counter(row.graph for row in rows)),
        systems=tuple(ListedSystem(as_text(o.owner), o.lease_s, o.runs) for o in owners),
    )


def rate_of(made: list[float], now: float) -> float:
    """Return steps per second over the last `STEPS_S` seconds.

    Args:
        made: times of the newest checkpoints, newest first, at most `STEPS_MAX`.
        now: in seconds since 1970, as those.
    """
    recent = [moment for moment in made if now - moment <= STEPS_S]
    if len(recent) < STEPS_MAX:
        return len(recent) / STEPS_S
    return len(recent) / max(now - recent[-1], 0.001)  # more were made: since the oldest known


def lag_of(rows: list[RunRow], now: float) -> float | None:
    """Return how long the oldest due run without a living system has waited; None without one."""
    due = [max(row.created, row.due) / 1e6 for row in rows if not row.alive]
    return max((now - moment for moment in due if moment <= now), default=None)


def fetch_samples(address: str) -> Samples:
    """Fetch and parse metrics; blocking.

    Raises:
        CommandError: the server doesn't answer with metrics.
    """
    do = "name the address of GraphRoutes' /metrics, or a database"
    try:
        with urllib.request.urlopen(address, timeout=ANSWER_S) as answer:  # noqa: S310 - see caller
            text = answer.read(ANSWER_BYTES_MAX).decode("utf-8", "replace")
    except (OSError, ValueError, urllib.error.URLError) as error:
        shown = without_password(address)
        raise CommandError(f"can't read {shown}: {error}", do=do) from error
    found = list(parse_metrics(text))
    if not any(name.startswith("actorgraph_") for name, _, _ in found):
        raise CommandError(f"{without_password(address)} has no metrics of actorgraph", do=do)
    return found


def parse_metrics(text: str) -> Iterator[tuple[str, dict[str, str], float]]:
    """Yield `(name, labels, value)` of Prometheus's text format; unreadable lines are skipped."""
    for line in text.splitlines():
        if line.startswith("#") or " " not in line:
            continue
        head, _, number = line.rpartition(" ")
        name, _, rest = head.partition("{")
        parts = (part.partition("=") for part in rest.rstrip("}").split(",") if "=" in part)
        labels = {key: value.strip('"') for key, _, value in parts}
        try:
            yield name, labels, float(number)
        except ValueError:
            continue


def metrics_figures(
    address: str, now: Samples, before: Samples | None = None, elapsed_s: float = 0.0
) -> Figures:
    """Make the figures of metrics.

    Args:
        before: of an earlier fetch, for the rate of steps.
        elapsed_s: seconds between both.
    """
    values = {name: value for name, labels, value in now if not labels}
    steps = values.get("actorgraph_supersteps_total")
    rate = None
    if before is not None and steps is not None and elapsed_s > 0:
        earlier = {name: value for name, labels, value in before if not labels}
        rate = (steps - earlier.get("actorgraph_supersteps_total", steps)) / elapsed_s
    ended = {
        labels["status"]: int(value)
        for name, labels, value in now
        if name == "actorgraph_runs_total" and "status" in labels
    }
    return Figures(
        place=without_password(address),
        running=int(values.get("actorgraph_runs_active", 0)),
        queued=int(values.get("actorgraph_runs_queued", 0) + values.get("actorgraph_runs_held", 0)),
        steps_per_s=rate,
        lag_s=values.get("actorgraph_dispatch_oldest_seconds"),
        ended=ended,
    )
