"""The page that starts a thread by a form of its graph's input."""

import uuid_utils
from starlette.responses import Response

from actorgraph.errors import ActorGraphError
from actorgraph.studio.input_forms import input_form, input_of
from actorgraph.studio.page_calls import Handler, StudioCall
from actorgraph.studio.question_forms import RAW, FormError, GivenTexts, choice_text, json_or_text
from actorgraph.studio.shown import part
from actorgraph.studio.thread_actions import may_start, start_run, status_of_error
from actorgraph.web.http.problems import HttpProblem, NotFound

THREAD = "~thread"
"""The name of the field for the thread's id; no path of an input's field contains "~t"."""


async def start_form(call: StudioCall) -> Response:
    """Show the form of a graph's input."""
    call.must_write()
    await call.may("studio.act")
    name = call.path("name")
    seen = await call.access.visible(call.principal, call.source.graphs)
    if name not in seen:
        raise NotFound(f"graph {name!r} not found")
    texts = GivenTexts(call.form if call.problem else None, call.errors)
    return call.page(
        "start.html",
        title=f"Start {name}",
        name=name,
        address=_address(call, name),
        graphs=[(one, _address(call, one)) for one in sorted(seen)],
        form=input_form(seen[name], texts),
        thread_id=call.form.get(THREAD, ""),
        raw=call.form.get(RAW, ""),
        choice_text=choice_text,
    )


def _address(call: StudioCall, name: str) -> str:
    return f"{call.root}/start/{part(name)}"


async def start(call: StudioCall) -> Response:
    """Start a thread with the input of the form."""
    call.must_write()
    name = call.path("name")
    graph = call.source.graphs.get(name)
    if graph is None:
        raise NotFound(f"graph {name!r} is not one of this system")
    thread_id = call.form.get(THREAD, "").strip() or str(uuid_utils.uuid7())
    wanted = await may_start(call, thread_id)
    here = f"/start/{part(name)}"
    try:
        raw = call.form.get(RAW, "").strip()
        given = json_or_text(raw) if raw else input_of(graph, call.form)
        await call.source.register(thread_id, name, wanted)
        await start_run(call, name, thread_id, given, if_busy="enqueue")
    except FormError as error:
        call.errors = error.errors
        return await start_form(call.refused("The input doesn't fit: see the form", here))
    except (ActorGraphError, HttpProblem) as error:
        return await start_form(call.refused(str(error), here, status_of_error(error)))
    return call.back(f"/threads/{part(thread_id)}")


PAGES: tuple[tuple[str, str, Handler], ...] = (
    ("GET", "/start/{name}", start_form),
    ("POST", "/start/{name}", start),
)
