"""The Agent Protocol 0.1.6 as a table: its operations, and what their responses must be.

Written after its OpenAPI document (MIT): the required fields and their types, in JSON Schema.
"""

from typing import Any

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
MAP: Schema = {"type": "object"}
FLAG: Schema = {"type": "boolean"}
TIME: Schema = {"type": "string", "format": "date-time"}
UUID: Schema = {"type": "string", "format": "uuid"}
ANY: Schema = {}


def listed(item: Schema) -> Schema:
    return {"type": "array", "items": item}


def record(required: Schema, **optional: Schema) -> Schema:
    """An object with these fields; others are allowed."""
    properties = {**required, **optional}
    return {"type": "object", "properties": properties, "required": list(required)}


def named(*names: str) -> Schema:
    return {"type": "string", "enum": list(names)}


BLOCK = {"anyOf": [record({"text": TEXT, "type": {"const": "text"}}), record({"type": TEXT})]}
MESSAGE = record({"role": TEXT, "content": {"oneOf": [TEXT, listed(BLOCK)]}}, id=TEXT, metadata=MAP)
AGENT = record(
    {"agent_id": TEXT, "name": TEXT, "capabilities": record({}, **{"ap.io.messages": FLAG})},
    description=TEXT,
    metadata=MAP,
)
SCHEMAS = record(
    {"agent_id": TEXT, "input_schema": MAP, "output_schema": MAP},
    state_schema=MAP,
    config_schema=MAP,
)
THREAD = record(
    {
        "thread_id": UUID,
        "created_at": TIME,
        "updated_at": TIME,
        "metadata": MAP,
        "status": named("idle", "busy", "interrupted", "error"),
    },
    values=MAP,
    messages=listed(MESSAGE),
)
STATE = record(
    {"checkpoint": record({"checkpoint_id": UUID}), "values": MAP},
    messages=listed(MESSAGE),
    metadata=MAP,
)
RUN = record(
    {
        "run_id": UUID,
        "thread_id": UUID,
        "created_at": TIME,
        "updated_at": TIME,
        "status": named("pending", "error", "success", "timeout", "interrupted"),
        "metadata": MAP,
        "kwargs": MAP,
        "multitask_strategy": named("reject", "rollback", "interrupt", "enqueue"),
    },
    agent_id=TEXT,
    config=MAP,
)
OUTPUT = record({"run": RUN}, values=MAP, messages=listed(MESSAGE))
ITEM = record(
    {"namespace": listed(TEXT), "key": TEXT, "value": MAP, "created_at": TIME, "updated_at": TIME}
)
STREAM = "text/event-stream"
NOTHING = None

RESPONSES: dict[str, Any] = {
    "POST /agents/search": listed(AGENT),
    "GET /agents/{agent_id}": AGENT,
    "GET /agents/{agent_id}/schemas": SCHEMAS,
    "POST /runs": RUN,
    "POST /runs/search": listed(RUN),
    "POST /runs/wait": OUTPUT,
    "POST /runs/stream": STREAM,
    "GET /runs/{run_id}": RUN,
    "GET /runs/{run_id}/wait": OUTPUT,
    "GET /runs/{run_id}/stream": STREAM,
    "POST /runs/{run_id}/cancel": NOTHING,
    "DELETE /runs/{run_id}": NOTHING,
    "POST /threads": THREAD,
    "POST /threads/search": listed(THREAD),
    "GET /threads/{thread_id}": THREAD,
    "PATCH /threads/{thread_id}": THREAD,
    "DELETE /threads/{thread_id}": NOTHING,
    "GET /threads/{thread_id}/history": listed(STATE),
    "POST /threads/{thread_id}/copy": THREAD,
    "PUT /store/items": NOTHING,
    "GET /store/items": ITEM,
    "DELETE /store/items": NOTHING,
    "POST /store/items/search": record({"items": listed(ITEM)}),
    "POST /store/namespaces": listed(listed(TEXT)),
    "POST /threads/{thread_id}/commands": ANY,
    "POST /threads/{thread_id}/stream": STREAM,
    "GET /threads/{thread_id}/stream": "websocket",
}
"""Operation -> its response: a JSON schema, `STREAM`, or `NOTHING` for 204 without a body."""

STREAMING = {name for name in RESPONSES if name.endswith(("/commands", "{thread_id}/stream"))}
"""The operations of its streaming protocol, which has a schema of its own."""

DIFFERENT = {
    "POST /store/namespaces": "an object with `namespaces`, as LangGraph's clients read it",
}
"""Operations whose response differs, and why; docs/decisions/0124 has the reasons."""
