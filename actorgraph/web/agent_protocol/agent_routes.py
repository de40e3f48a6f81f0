"""Routes of the Agent Protocol for agents: each assistant is one."""

from typing import Any

from msgspec.structs import replace

from actorgraph.web.endpoints import assistants
from actorgraph.web.endpoints.endpoint import ApiCall, Endpoint, graph_of_assistant
from actorgraph.web.http import bodies, response_types

MESSAGES = "messages"
"""The key of the state that holds an agent's messages."""


async def search(call: ApiCall) -> list[response_types.Agent]:
    """List the agents."""
    body: bodies.AgentSearch = call.body
    wanted = bodies.AssistantSearch(
        metadata=body.metadata, name=body.name, limit=body.limit, offset=body.offset
    )
    found = await assistants.found_page(call, wanted)
    return [_agent(call, one) for one in found]


async def read(call: ApiCall) -> response_types.Agent:
    """Return one agent."""
    return _agent(call, await assistants.read(_as_assistant(call)))


async def schemas(call: ApiCall) -> response_types.AgentSchemas:
    """Return the JSON schemas of an agent; `{}` accepts anything."""
    inner = _as_assistant(call)
    found, one = await assistants.schemas(inner), await assistants.read(inner)
    optional = {"state_schema": found.state_schema, "config_schema": found.context_schema}
    return response_types.AgentSchemas(
        agent_id=one.assistant_id,
        input_schema=found.input_schema or {},
        output_schema=found.output_schema or {},
        **{name: schema for name, schema in optional.items() if schema is not None},
    )


def takes_messages(graph: Any) -> bool:
    """Whether a graph's runs take and return messages."""
    return MESSAGES in graph.plan.channels


def _as_assistant(call: ApiCall) -> ApiCall:
    return replace(call, path={"assistant_id": call.path["agent_id"]})


def _agent(call: ApiCall, one: response_types.Assistant) -> response_types.Agent:
    _, graph = graph_of_assistant(call, one.graph_id)
    made = response_types.Agent(
        agent_id=one.assistant_id,
        name=one.name,
        metadata=one.metadata,
        capabilities={"ap.io.messages": takes_messages(graph)},
    )
    if one.description is not None:
        made.description = one.description
    return made


_A = "/agents/{agent_id}"
ENDPOINTS = (
    Endpoint(
        "POST",
        "/agents/search",
        "assistants.read",
        search,
        list[response_types.Agent],
        bodies.AgentSearch,
        summary="Find agents",
    ),
    Endpoint("GET", _A, "assistants.read", read, response_types.Agent, summary="Get an agent"),
    Endpoint(
        "GET",
        _A + "/schemas",
        "assistants.read",
        schemas,
        response_types.AgentSchemas,
        summary="Get an agent's schemas",
    ),
)
