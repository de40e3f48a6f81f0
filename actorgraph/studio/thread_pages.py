"""Pages about one thread: its messages, graph, steps and state."""

import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from markupsafe import Markup
from starlette.responses import Response

from actorgraph.graph import CompiledStateGraph
from actorgraph.internals import PHASE_TEXT, microseconds_now
from actorgraph.studio.conversation import conversation_of
from actorgraph.studio.input_forms import message_key
from actorgraph.studio.page_calls import Handler, StudioCall, drawn
from actorgraph.studio.question_forms import GivenTexts, choice_text
from actorgraph.studio.shown import part
from actorgraph.studio.shown import whole as whole_text
from actorgraph.studio.steps import ListedStep, checkpoint_of, listed, parent_of
from actorgraph.studio.studio_reader import ThreadEntry
from actorgraph.studio.thread_views import (
    StateView,
    failures_of,
    marks_of,
    questions_of,
    state_view,
    step_rows,
)
from actorgraph.studio.waterfall import waterfall
from actorgraph.types import StateSnapshot
from actorgraph.web.http.problems import NotFound

TITLE = "title"
"""The key of a thread's metadata for its name in the studio."""
STREAM = "stream?stream_mode=signals"
"""The stream that a page follows: it reads what it shows of the state from the server's pages."""


def address_of(call: StudioCall, thread_id: str) -> str:
    """Return the address of a thread's page."""
    return f"{call.root}/threads/{part(thread_id)}"


def title_of(one: ThreadEntry) -> str:
    """Return a thread's name, or its id."""
    name = one.metadata.get(TITLE)
    return name if isinstance(name, str) and name else one.thread_id


async def thread(call: StudioCall) -> Response:
    """Show one thread."""
    return call.page("thread.html", **await _thread_context(call, whole=True))


async def steps(call: StudioCall) -> Response:
    """Show the steps of a thread, to replace them in its page."""
    return call.page("steps.html", **await _thread_context(call, whole=False))


async def _thread_context(call: StudioCall, *, whole: bool) -> dict[str, Any]:
    entry = await admitted(call, "studio.read")
    graph = call.source.graphs.get(entry.graph)
    address, before = address_of(call, entry.thread_id), call.query.get("before")
    found = await call.source.steps(entry, before)
    first = found.steps[0].checkpoint_id if found.steps else ""
    asked = call.query.get("step") or (call.form.get("checkpoint", "") if call.problem else "")
    current = asked or ("" if before else first)
    is_head = not before and current == first  # also before the first step is stored
    step = next((one for one in found.steps if one.checkpoint_id == (current or first)), None)
    state = found.head if is_head else None
    if not is_head and (whole or step is None) and (current or first):
        state = await _state(call, entry, current or first)
    if step is None and state is not None:
        step = listed(state)
    context: dict[str, Any] = {
        "title": title_of(entry),
        "partial": not whole,
        "thread": _thread(entry, address),
        "steps": step_rows(found.steps, current, address, from_head=not before),
        "steps_query": urlencode({k: call.query[k] for k in ("step", "before") if k in call.query}),
        "marks": json.dumps(_marks(step, found.steps)),
        "waterfall": drawn(waterfall(found.bars, microseconds_now())),
        "newer": address if before else None,
        "older": f"{address}?before={found.before}" if found.before else None,
    }
    if not whole:
        return context
    return context | {
        **_talk_context(call, entry, state, is_head=is_head),
        "stream": f"{call.root}/api/threads/{part(entry.thread_id)}/{STREAM}" if graph else "",
        "picture": _picture(graph),
        "state": None if state is None else await _view(call, entry, state, is_head=is_head),
        "edited": call.form if call.problem and "values" in call.form else {},
        "nodes": sorted(graph.nodes) if graph else [],
    }


async def conversation(call: StudioCall) -> Response:
    """Show the messages and questions of a thread, to replace them in its page."""
    entry = await admitted(call, "studio.read")
    head = entry.head or await call.source.head(entry)
    context = _talk_context(call, entry, head, is_head=True)
    address = address_of(call, entry.thread_id)
    return call.page("talk.html", thread=_thread(entry, address), partial=True, **context)


def _talk_context(
    call: StudioCall, entry: ThreadEntry, step: StateSnapshot | None, *, is_head: bool
) -> dict[str, Any]:
    """Return what the conversation of a thread shows at a step."""
    graph = call.source.graphs.get(entry.graph)
    key, before = call.query.get("messages", ""), call.query.get("above", "")
    number = int(before) if before.isdecimal() and len(before) < 9 else None
    talk = None if step is None else conversation_of(step.values, key, number)
    refused = call.form.get("interrupt", "") if call.problem else ""
    texts = GivenTexts(call.form, call.errors)
    questions = (
        questions_of(step, call.many.get("interrupt", [""])[0] if refused else "", texts)
        if (step is not None and is_head)
        else []
    )
    takes = "" if graph is None or not is_head or questions else message_key(graph)
    return {
        "talk": talk,
        "is_live": is_head and graph is not None and number is None,
        "talk_query": urlencode({"messages": key} if key else {}),
        "step_query": call.query.get("step", ""),
        "questions": questions,
        "failures": failures_of(step) if step else [],
        "is_head": is_head,
        "acts": graph is not None,
        "takes_messages": bool(takes),
        "sent": call.form.get("message", "") if call.problem else "",
        "choice_text": choice_text,
    }


async def admitted(call: StudioCall, action: str) -> ThreadEntry:
    """Return the thread of the path, if the principal may do this with it.

    Raises:
        HttpProblem: it doesn't exist, or the principal may not.
    """
    thread_id = call.path("thread_id")
    entry = await call.source.thread(thread_id)
    await call.may(action, thread_id, entry.metadata if entry else {})
    if entry is None:
        raise NotFound.thread(thread_id)
    return entry


def _thread(entry: ThreadEntry, address: str) -> dict[str, Any]:
    return {
        "thread_id": entry.thread_id,
        "title": title_of(entry),
        "name": entry.metadata.get(TITLE, ""),
        "address": address,
        "status": entry.phase,
        "status_text": PHASE_TEXT[entry.phase],
        "graph": entry.graph,
        "open_runs": entry.open_runs,
        "metadata_text": whole_text(entry.metadata),
    }


async def _state(call: StudioCall, entry: ThreadEntry, checkpoint: str) -> StateSnapshot:
    found = await call.source.step(entry, checkpoint)
    if found is None or checkpoint_of(found) != checkpoint:
        raise NotFound(f"thread {entry.thread_id!r} has no step {checkpoint!r}")
    return found


async def _view(
    call: StudioCall, entry: ThreadEntry, state: StateSnapshot, *, is_head: bool
) -> StateView:
    wanted = parent_of(state)
    parent = await call.source.step(entry, wanted) if wanted else None
    return state_view(state, parent, is_head=is_head, recorded=not is_head)


def _marks(step: ListedStep | None, among: Sequence[ListedStep]) -> list[tuple[str, str]]:
    if step is None:
        return []
    at = next((n for n, one in enumerate(among) if one is step), len(among))
    ran = [name for one in among[at + 1 :] for name, state in one.tasks if state != "failed"]
    return marks_of(step, ran)


def _picture(graph: CompiledStateGraph | None) -> Markup:
    if graph is None:
        return Markup()
    return drawn(graph.get_graph(xray=True).draw_svg(style=False))


PAGES: tuple[tuple[str, str, Handler], ...] = (
    ("GET", "/threads/{thread_id}", thread),
    ("GET", "/threads/{thread_id}/steps", steps),
    ("GET", "/threads/{thread_id}/conversation", conversation),
)
