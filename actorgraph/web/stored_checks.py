"""Check the assistants and crons of a store against graphs, without running or changing anything.

Each is read as a request or a look of the crons would read it, and asked what they ask.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from actorgraph.errors import ActorGraphError
from actorgraph.graph import CompiledStateGraph
from actorgraph.internals import (
    Finding,
    FindingKind,
    ResumeVerdict,
    SettingsTally,
    assistant_id,
    unreadable,
)
from actorgraph.web.endpoints.cron_runs import body_of_cron, run_of_tick
from actorgraph.web.endpoints.run_start import run_input
from actorgraph.web.http.problems import HttpProblem
from actorgraph.web.jobs.cron_registry import CronRegistry, StoredCron
from actorgraph.web.registries.assistant_registry import (
    AssistantRegistry,
    StoredAssistant,
    of_graph,
)
from actorgraph.web.registries.stored_bodies import (
    TickWords,
    body_of_tick,
    migrates_assistant,
    refused_assistant,
    refused_tick,
    refused_tick_input,
)

WORDS = TickWords(
    "a cron is stored whose context",
    "a cron is stored whose assistant's context",
    "a cron is stored whose input",
)
"""Those of one cron are those of all that are alike: no ids."""

Graphs = Mapping[str, CompiledStateGraph]


async def check_stored(graphs: Graphs, store: Any, tally: SettingsTally) -> None:
    """Count the assistants of a store, and its crons that will run, by what graphs do with them.

    Crons that are switched off or have ended are left out: they start nothing.

    Args:
        graphs: name -> graph, as the server has them.
        store: the server's.
    """
    assistants = {one.assistant_id: one for one in await AssistantRegistry(store).all()}
    for identifier, assistant in assistants.items():
        name = assistant.now.graph_id
        if name in graphs:
            tally.add("assistant", name, identifier, _assistant(graphs[name], assistant))
        else:
            tally.leave_out(name)
    assistants |= {assistant_id(name): of_graph(name) for name in graphs}
    now = datetime.now(UTC)
    for cron in await CronRegistry(store).all(enabled=True):
        end, assistant = cron.timetable.end, assistants.get(cron.assistant_id)
        name = "" if assistant is None else assistant.now.graph_id
        if end is not None and end < now:
            continue
        if assistant is not None and name in graphs:
            tally.add("cron", name, cron.cron_id, _cron(graphs[name], assistant, cron))
        else:
            tally.leave_out(name)


def _assistant(graph: CompiledStateGraph, assistant: StoredAssistant) -> Finding | ResumeVerdict:
    what = "an assistant is stored whose context"
    try:
        refused = refused_assistant(graph, assistant, what)
        if refused is not None:
            return refused
        migrated = migrates_assistant(graph, assistant)
    except ActorGraphError as error:
        return unreadable(error, what)
    return ResumeVerdict.MIGRATED if migrated else ResumeVerdict.FITS


def _cron(
    graph: CompiledStateGraph, assistant: StoredAssistant, cron: StoredCron
) -> Finding | ResumeVerdict:
    try:
        body = assistant.under(body_of_cron(cron))
        given, note = run_input(body), cron.note.get("input", {})
        refused = refused_tick(graph, assistant, (cron.payload, cron.note), WORDS)
        refused = refused or refused_tick_input(graph, given, note, WORDS)
        if refused is not None:
            return refused
        made, _ = run_of_tick(graph, assistant, cron)
        stored = (cron.cron_id, cron.payload, cron.note)
        whole = body_of_tick(graph, assistant, body_of_cron(cron), stored)
    except ActorGraphError as error:
        return unreadable(error, WORDS.context)
    except (HttpProblem, ValueError) as error:
        do = "change the cron: PATCH /runs/crons/{cron_id}"
        what = "a cron is stored whose run can't be started"
        return Finding(FindingKind.VALUE, type(error).__name__, what, str(error), "", do)
    same = made == given and whole.context == body.context
    return ResumeVerdict.FITS if same else ResumeVerdict.MIGRATED
