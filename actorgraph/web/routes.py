"""All routes: the OpenAPI document, the application and the tests of access are made of them."""

from typing import Any

from actorgraph.internals import __version__
from actorgraph.web.assistant_changes import ENDPOINTS as ASSISTANT_CHANGES
from actorgraph.web.assistants import ENDPOINTS as ASSISTANTS
from actorgraph.web.crons import ENDPOINTS as CRONS
from actorgraph.web.meta import ENDPOINTS as META
from actorgraph.web.openapi import document
from actorgraph.web.pictures import ENDPOINTS as PICTURES
from actorgraph.web.protocol_agents import ENDPOINTS as AGENTS
from actorgraph.web.protocol_runs import ENDPOINTS as AGENT_RUNS
from actorgraph.web.requests.endpoint import ApiCall, Endpoint
from actorgraph.web.runs import ENDPOINTS as RUNS
from actorgraph.web.store import ENDPOINTS as STORE
from actorgraph.web.system_figures import ENDPOINTS as SYSTEM_FIGURES
from actorgraph.web.thread_search import ENDPOINTS as SEARCH_ENDPOINTS
from actorgraph.web.thread_streams import ENDPOINTS as THREAD_STREAMS
from actorgraph.web.threads import ENDPOINTS as THREADS
from actorgraph.web.timeline_routes import ENDPOINTS as TIMELINES
from actorgraph.web.wire_commands import ENDPOINTS as WIRE_COMMANDS
from actorgraph.web.wire_streams import ENDPOINTS as WIRE_STREAMS


async def openapi(_: ApiCall) -> Any:
    """Return the OpenAPI document of all routes."""
    return document(ENDPOINTS, version=__version__)


ENDPOINTS = (
    *(*THREADS, *SEARCH_ENDPOINTS, *THREAD_STREAMS, *WIRE_STREAMS, *WIRE_COMMANDS, *CRONS),
    *(*RUNS, *AGENT_RUNS, *ASSISTANTS, *ASSISTANT_CHANGES, *AGENTS, *STORE, *META),
    *(*TIMELINES, *PICTURES, *SYSTEM_FIGURES),
    Endpoint("GET", "/openapi.json", None, openapi, dict[str, Any], summary="Get this document"),
)

ACTIONS = tuple(sorted({e.action for e in ENDPOINTS if e.action is not None}))
"""The names of all actions that `authorize` may be called with."""
