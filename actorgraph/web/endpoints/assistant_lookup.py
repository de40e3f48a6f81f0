"""Look up assistants: the visible graphs, and stored ones that the access rules allow."""

from actorgraph.internals import assistant_id
from actorgraph.web.endpoints.endpoint import ApiCall
from actorgraph.web.http.json_equality import contains
from actorgraph.web.http.problems import Conflict, Forbidden, NotFound
from actorgraph.web.registries.assistant_registry import StoredAssistant, missing, of_graph


async def assistant_of(
    call: ApiCall, identifier: str, action: str = "assistants.read"
) -> StoredAssistant:
    """Return the assistant with an id, or the one of a graph's name, for an action on it.

    Raises:
        NotFound: it doesn't exist, or the principal may not see it or its graph.
    """
    for name in call.graphs:
        if identifier in (name, assistant_id(name)):
            return of_graph(name)
    known = await call.server.assistants.get(identifier)
    if known is None or not await is_allowed(call, known, action):
        raise missing(identifier)
    return known


async def is_allowed(call: ApiCall, known: StoredAssistant, action: str) -> bool:
    """Whether the principal may do something with a stored assistant."""
    now = known.now
    if now.graph_id not in call.graphs:
        return False
    try:
        wanted = await call.server.access.ask(call.principal, action, None, now.metadata)
    except (Forbidden, NotFound):
        return False
    return contains(now.metadata, wanted)


def check_changeable(known: StoredAssistant) -> None:
    """Refuse to change a registered graph.

    Raises:
        Conflict: it is one.
    """
    if known.system:
        name = known.now.graph_id
        raise Conflict(f"assistant {name!r} is a registered graph; create an assistant of it")
