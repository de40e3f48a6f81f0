"""All routes: the OpenAPI document, the application and the tests of access are made of them."""

from typing import Any

from actorgraph.internals import __version__
from actorgraph.web.agent_protocol.agent_routes import ENDPOINTS as AGENTS
from actorgraph.web.agent_protocol.agent_runs import ENDPOINTS as AGENT_RUNS
from actorgraph.web.endpoints.assistant_changes import ENDPOINTS as ASSISTANT_CHANGES
from actorgraph.web.endpoints.assistants import ENDPOINTS as ASSISTANTS
from actorgraph.web.endpoints.crons import ENDPOINTS as CRONS
from actorgraph.web.endpoints.endpoint import ApiCall, Endpoint
from actorgraph.web.endpoints.meta import ENDPOINTS as META
from actorgraph.web.endpoints.pictures import ENDPOINTS as PICTURES
from actorgraph.web.endpoints.runs import ENDPOINTS as RUNS
from actorgraph.web.endpoints.store import ENDPOINTS as STORE
from actorgraph.web.endpoints.system_figures import ENDPOINTS as SYSTEM_FIGURES
from actorgraph.web.endpoints.thread_search import ENDPOINTS as SEARCH_ENDPOINTS
from actorgraph.web.endpoints.thread_streams import ENDPOINTS as THREAD_STREAMS
from actorgraph.web.endpoints.threads import ENDPOINTS as THREADS
from actorgraph.web.endpoints.timeline_routes import ENDPOINTS as TIMELINES
from actorgraph.web.openapi import document
from actorgraph.web.stream_protocol.protocol_commands import ENDPOINTS as WIRE_COMMANDS
from actorgraph.web.stream_protocol.protocol_streams import ENDPOINTS as WIRE_STREAMS


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
