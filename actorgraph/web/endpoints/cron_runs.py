"""The runs of crons: their bodies, inputs and options, brought up to date."""

from datetime import UTC
from typing import Any

import msgspec

from actorgraph.graph import CompiledStateGraph
from actorgraph.web.endpoints.run_start import run_input, run_options
from actorgraph.web.http import bodies
from actorgraph.web.http.identity import identity_of, stored_settings, without_claims
from actorgraph.web.jobs.cron_plan import StartTick, WaitForTick
from actorgraph.web.jobs.cron_registry import CRON, StoredCron
from actorgraph.web.registries.assistant_registry import StoredAssistant
from actorgraph.web.registries.stored_bodies import body_of_tick, input_of_tick


def run_of_tick(
    graph: CompiledStateGraph, assistant: StoredAssistant, cron: StoredCron
) -> tuple[Any, dict[str, Any]]:
    """Return the input and the options of a cron's run, brought up to date.

    Raises:
        SchemaMismatchError: they are of another version of the graph, and don't fit.
        ChangedTypeError: a function of a migration raised.
    """
    stored = (cron.cron_id, cron.payload, cron.note)
    body = body_of_tick(graph, assistant, body_of_cron(cron), stored)
    given = input_of_tick(graph, run_input(body), cron.cron_id, cron.note.get("input", {}))
    known = identity_of(cron.user_id, assistant.assistant_id, assistant.now.graph_id)
    return given, run_options(body, assistant, graph, known)


def body_of_cron(cron: StoredCron) -> bodies.RunBody:
    """Return the body of a cron's runs."""
    metadata: dict[str, Any] = {**without_claims(cron.metadata), CRON: cron.cron_id}
    given = {
        **stored_settings(cron.payload),
        "assistant_id": cron.assistant_id,
        "metadata": metadata,
    }
    return msgspec.convert(given, bodies.RunBody)


def next_run_date(decision: object) -> str | None:
    """Return the time of a cron's next run, ISO 8601 UTC; None without one."""
    tick = decision.tick if isinstance(decision, StartTick | WaitForTick) else None
    return None if tick is None else tick.astimezone(UTC).isoformat()
