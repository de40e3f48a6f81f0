"""The page that shows two threads, runs or checkpoints side by side."""

from typing import Any

import msgspec
from starlette.responses import Response

from actorgraph.internals import PHASE_TEXT
from actorgraph.studio.comparison import aligned, compared
from actorgraph.studio.page_calls import Handler, StudioCall
from actorgraph.studio.run_pages import admitted_run
from actorgraph.studio.shown import part
from actorgraph.studio.steps import ListedStep, checkpoint_of
from actorgraph.studio.studio_reader import EMPTY, ThreadEntry
from actorgraph.studio.thread_pages import address_of, title_of
from actorgraph.types import StateSnapshot
from actorgraph.web.http.problems import NotFound


class Side(msgspec.Struct, frozen=True):
    """What one side of the page shows.

    Attributes:
        name: the id that was asked for.
        kind: "thread" or "run".
        state: at its newest step, or at the one that was asked for.
        steps: oldest first.
    """

    name: str
    at: str
    kind: str
    title: str
    address: str
    status: str
    status_text: str
    thread_address: str
    state: StateSnapshot
    steps: list[ListedStep]


async def compare(call: StudioCall) -> Response:
    """Show two of them; with fewer a form that asks for them."""
    await call.may("studio.read")
    query = call.request.query_params
    named = [*query.getlist("thread"), *query.getlist("run")]
    named += ["", ""]
    left, right = query.get("left", named[0]).strip(), query.get("right", named[1]).strip()
    at = query.get("left_at", "").strip(), query.get("right_at", "").strip()
    context: dict[str, Any] = {"left": left, "right": right, "left_at": at[0], "right_at": at[1]}
    sides: list[Side] = []
    problem = ""
    if len(named) > 4:
        problem = f"{len(named) - 2} were selected: the first two are compared."
    if left and right:
        try:
            sides = [await _side(call, left, at[0]), await _side(call, right, at[1])]
        except NotFound as error:
            problem = error.detail
    return call.page(
        "compare.html", title="Compare", **context, **_compared(sides), problem=problem
    )


def _compared(sides: list[Side]) -> dict[str, Any]:
    if not sides:
        return {"sides": [], "keys": [], "pairs": [], "differing": 0}
    one, other = sides
    keys = compared(one.state.values, other.state.values)
    return {
        "sides": sides,
        "keys": keys,
        "differing": sum(row.kind != "same" for row in keys),
        "pairs": aligned(one.steps, other.steps),
    }


async def _side(call: StudioCall, name: str, at: str) -> Side:
    """Read one side: a thread, else the run with this id.

    Raises:
        NotFound: there is neither, or no such step.
        HttpProblem: the principal may not read it.
    """
    entry = await call.source.thread(name)
    if entry is not None:
        await call.may("studio.read", name, entry.metadata)
        return await _of_thread(call, entry, at)
    try:
        run, entry = await admitted_run(call, name)
    except NotFound:
        raise NotFound(f"there is no thread and no run {name!r}") from None
    steps = await call.source.steps_of_run(entry, run.id)
    at_end = at or (steps[0].checkpoint_id if steps else "")
    state = await _state(call, entry, at_end) if at_end else EMPTY
    return Side(
        name,
        at,
        "run",
        run.id,
        f"{call.root}/runs/{part(run.id)}",
        run.status,
        run.status,
        address_of(call, entry.thread_id),
        state,
        steps[::-1],
    )


async def _of_thread(call: StudioCall, entry: ThreadEntry, at: str) -> Side:
    page = await call.source.steps(entry, None)
    state = await _state(call, entry, at) if at else entry.head or await call.source.head(entry)
    steps = list(page.steps)
    known = [one.checkpoint_id for one in steps]
    if at in known:
        steps = steps[known.index(at) :]
    address = address_of(call, entry.thread_id)
    return Side(
        entry.thread_id,
        at,
        "thread",
        title_of(entry),
        f"{address}?step={at}" if at else address,
        entry.phase,
        PHASE_TEXT[entry.phase],
        address,
        state,
        steps[::-1],
    )


async def _state(call: StudioCall, entry: ThreadEntry, at: str) -> StateSnapshot:
    found = await call.source.step(entry, at)
    if found is None or checkpoint_of(found) != at:
        raise NotFound(f"thread {entry.thread_id!r} has no step {at!r}")
    return found


PAGES: tuple[tuple[str, str, Handler], ...] = (("GET", "/compare", compare),)
